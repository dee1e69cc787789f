//! `dev.json` in the data folder: how the command line finds the `sless dev` that runs there.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

const NAME: &str = "dev.json";
/// The longest one: a token of 8 KiB and some addresses.
const MAX_BYTES: u64 = 64 << 10;

/// What a `sless dev` writes about itself. It holds a token, so only its owner may read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevFile {
    /// Where the API and the gateway are.
    pub endpoint: String,
    /// Where health and metrics are.
    pub internal: String,
    /// A token.
    pub token: String,
    /// Its process.
    pub pid: u32,
}

impl DevFile {
    /// Writes it; readers see the old one or the new one, whole.
    pub fn write(&self, data: &Path) -> anyhow::Result<()> {
        let (path, temporary) = (data.join(NAME), data.join(".dev.json"));
        let written = || -> std::io::Result<()> {
            // One that a killed process left may have other permissions.
            match fs::remove_file(&temporary) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
            fs::rename(&temporary, &path)
        };
        written().with_context(|| format!("write {}", path.display()))
    }

    /// Reads it; none where no `sless dev` runs, as far as the folder knows.
    pub fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        use std::io::Read as _;
        let path = data.join(NAME);
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.with_context(|| format!("read {}", path.display()))?,
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is not what `sless dev` writes", path.display()))
    }

    /// Removes it: nothing runs there any more.
    pub(super) fn remove(data: &Path) {
        let _ = fs::remove_file(data.join(NAME));
    }
}
