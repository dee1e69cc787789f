//! The programs that build and run functions here: Python and Node.js of this machine.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sless_core::Runtime;

/// Where to look for programs, and which.
#[derive(Debug, Clone, Default)]
pub struct Toolchains {
    /// Folders as in `PATH`.
    pub path: OsString,
    /// The Python to use, a name or a path; `python3.11` if none is named.
    pub python: Option<OsString>,
    /// The Node.js to use, a name or a path; `node` if none is named.
    pub node: Option<OsString>,
}

/// A program that runs functions of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interpreter {
    /// Its file.
    pub(super) program: PathBuf,
    /// What it says it is, such as `Python 3.11.2`.
    pub(super) version: String,
}

impl Toolchains {
    /// The interpreter of a runtime; else what to install or to set.
    pub(super) fn find(&self, runtime: Runtime) -> Result<Interpreter, String> {
        match runtime {
            Runtime::Python311 => self.python(),
            Runtime::Nodejs20 => self.node(),
            other => Err(format!("`{other}` does not run in containers")),
        }
    }

    /// What is missing for a runtime, if something is.
    pub fn missing(&self, runtime: Runtime) -> Option<String> {
        self.find(runtime).err()
    }

    fn python(&self) -> Result<Interpreter, String> {
        const REMEDY: &str =
            "install Python 3.11 (`apt-get install python3.11`, `pyenv install 3.11`), or name one with SLESS_PYTHON";
        if let Some(named) = &self.python {
            let found = self.known(named).ok_or_else(|| format!("{} is no Python; {REMEDY}", named.display()))?;
            return match number(&found.version) {
                // The server needs it; a newer one may differ from the cluster's, which is the owner's choice.
                Some(version) if version >= (3, 11) => Ok(found),
                _ => Err(format!("{} is {}, and 3.11 is needed; {REMEDY}", named.display(), found.version)),
            };
        }
        ["python3.11", "python3", "python"]
            .iter()
            .filter_map(|name| self.known(OsStr::new(name)))
            .find(|found| number(&found.version) == Some((3, 11)))
            .ok_or_else(|| format!("Python 3.11 is not on this machine; {REMEDY}"))
    }

    fn node(&self) -> Result<Interpreter, String> {
        const REMEDY: &str = "install Node.js 20 (20.19 or newer), or name one with SLESS_NODE";
        let name = self.node.as_deref().unwrap_or(OsStr::new("node"));
        let found = self.known(name).ok_or_else(|| format!("Node.js is not on this machine; {REMEDY}"))?;
        let version = number(&found.version);
        let fits = match (&self.node, version) {
            (Some(_), Some(version)) => version >= (20, 19),
            (None, Some((major, minor))) => major == 20 && minor >= 19,
            (_, None) => false,
        };
        if fits { Ok(found) } else { Err(format!("{} is {}; {REMEDY}", found.program.display(), found.version)) }
    }

    /// A program by its name in `PATH`, or by its path, if it says its version.
    fn known(&self, name: &OsStr) -> Option<Interpreter> {
        let program = self.which(name)?;
        let said = Command::new(&program)
            .arg("--version")
            .env_clear()
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|said| said.status.success())?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        // Behind a version manager's script is the program itself, which starts quicker and needs no environment.
        let real = real_python(&program, &self.path).unwrap_or(program);
        Some(Interpreter { program: real, version })
    }

    /// The file of a program.
    pub(super) fn which(&self, name: &OsStr) -> Option<PathBuf> {
        let runs = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        if Path::new(name).components().count() > 1 {
            return std::path::absolute(name).ok().filter(|path| runs(path));
        }
        std::env::split_paths(&self.path).map(|folder| folder.join(name)).find(|path| runs(path))
    }
}

/// What a Python says its own file is; none for other programs.
fn real_python(program: &Path, path: &OsStr) -> Option<PathBuf> {
    if !program.file_name()?.to_str()?.starts_with("python") {
        return None;
    }
    let said = Command::new(program)
        .args(["-I", "-c", "import sys; print(sys.executable)"])
        .env_clear()
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let real = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    real.is_file().then_some(real)
}

/// Major and minor out of `Python 3.11.2` or `v20.19.1`.
fn number(version: &str) -> Option<(u32, u32)> {
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(folder: &Path, name: &str, says: &str) {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn toolchains(folder: &Path) -> Toolchains {
        Toolchains { path: folder.into(), ..Toolchains::default() }
    }

    #[test]
    fn another_python_is_taken_only_by_name() {
        let dir = tempfile::tempdir().unwrap();
        script(dir.path(), "python3", "Python 3.12.1");
        let why = toolchains(dir.path()).find(Runtime::Python311).unwrap_err();
        assert!(why.contains("not on this machine") && why.contains("SLESS_PYTHON"), "{why}");
        let named = Toolchains { python: Some("python3".into()), ..toolchains(dir.path()) };
        assert_eq!(named.find(Runtime::Python311).unwrap().version, "Python 3.12.1");
        script(dir.path(), "python3", "Python 3.9.2");
        let why = named.find(Runtime::Python311).unwrap_err();
        assert!(why.contains("is Python 3.9.2"), "{why}");
        script(dir.path(), "python3.11", "Python 3.11.7");
        assert_eq!(toolchains(dir.path()).find(Runtime::Python311).unwrap().version, "Python 3.11.7");
    }

    #[test]
    fn node_has_to_be_the_runtimes() {
        let dir = tempfile::tempdir().unwrap();
        assert!(toolchains(dir.path()).find(Runtime::Nodejs20).unwrap_err().contains("install Node.js 20"));
        script(dir.path(), "node", "v18.1.0");
        assert!(toolchains(dir.path()).find(Runtime::Nodejs20).unwrap_err().contains("v18.1.0"));
        script(dir.path(), "node", "v20.19.1");
        assert_eq!(toolchains(dir.path()).find(Runtime::Nodejs20).unwrap().version, "v20.19.1");
        script(dir.path(), "node", "v22.3.0");
        assert!(toolchains(dir.path()).find(Runtime::Nodejs20).is_err());
        let named = Toolchains { node: Some("node".into()), ..toolchains(dir.path()) };
        assert!(named.find(Runtime::Nodejs20).is_ok());
        assert!(named.find(Runtime::Wasm).is_err());
    }
}
