//! The build command of `sless.toml`, which makes a folder's component. It is its owner's, like a line of a makefile: it
//! runs in a shell, in that folder, with the user's environment, and is shown before it runs.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Exit, Failure};
use crate::manifest;
use crate::output::say;

/// What a build has no business with: whoever has these can act as the user.
const CREDENTIALS: [&str; 2] = ["SLESS_TOKEN", "SLESS_JWT_SECRET"];

/// The command, to be run in its folder.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).stdin(Stdio::null());
    for name in CREDENTIALS {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end. What it prints goes to standard error, which leaves standard output to this program's result.
pub(super) fn run(folder: &Path, line: &str) -> Result<(), Failure> {
    say(&format!("running the build command of {}: {line}", manifest::FILE_NAME));
    let failed = |text: String| {
        Failure::new(Exit::BuildFailed, text)
            .remedy(format!("correct `build` in {} or what it compiles; --no-build leaves it out", manifest::FILE_NAME))
    };
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(|e| failed(format!("run `{line}`: {e}")))?;
    let status =
        command(folder, line).stdout(stderr).status().map_err(|e| failed(format!("run `{line}` in a shell: {e}")))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(format!("the build command `{line}` failed ({status}) in {}", folder.display())))
}
