//! Settings: flag > environment > file > default; and where nothing is set, the `sless dev` of this folder.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sless_client::{Client, Config};
use sless_server::dev::DevFile;

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::output::Format;

/// The data folder's name where none is given.
pub(crate) const DATA_FOLDER: &str = ".sless";
/// The largest file of settings: a handful of lines.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The file of settings. Unknown keys are refused: a misspelt one would be silently without effect.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    endpoint: Option<String>,
    token: Option<String>,
    namespace: Option<String>,
    output: Option<Format>,
}

/// What the options, the environment and the file say together.
#[derive(Debug)]
pub(crate) struct Settings {
    endpoint: Option<String>,
    token: Option<String>,
    namespace: Option<String>,
    data: Option<PathBuf>,
    pub(crate) output: Format,
}

impl Settings {
    /// Reads the file and lays options and environment over it.
    pub(crate) fn load(global: Global) -> Result<Self, Failure> {
        let file = match &global.config {
            Some(path) => read(path)?,
            None => match default_file() {
                Some(path) if path.exists() => read(&path)?,
                _ => File::default(),
            },
        };
        Ok(Self::join(global, file))
    }

    fn join(global: Global, file: File) -> Self {
        // A variable that is set to nothing is not set.
        let given = |option: Option<String>, file: Option<String>| option.filter(|s| !s.is_empty()).or(file);
        Self {
            endpoint: given(global.endpoint, file.endpoint),
            token: given(global.token, file.token),
            namespace: given(global.namespace, file.namespace),
            data: global.data.filter(|path| !path.as_os_str().is_empty()),
            output: global.output.or(file.output).unwrap_or_default(),
        }
    }

    /// A client of the API that is meant.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let namespace = match &self.namespace {
            Some(text) => Some(args::namespace(text).map_err(|e| Failure::new(Exit::Usage, e))?),
            None => None,
        };
        let (endpoint, token) = match (&self.endpoint, &self.token) {
            (Some(endpoint), Some(token)) => (endpoint.clone(), token.clone()),
            (Some(endpoint), None) => (endpoint.clone(), self.dev_token_for(endpoint)?),
            (None, token) => {
                let dev = self.dev_file()?.ok_or_else(no_endpoint)?;
                (dev.endpoint, token.clone().unwrap_or(dev.token))
            }
        };
        Ok(Client::new(Config { endpoint, token, namespace })?)
    }

    /// The token in use.
    pub(crate) fn token(&self) -> Result<String, Failure> {
        match &self.token {
            Some(token) => Ok(token.clone()),
            None => Ok(self.dev_file()?.ok_or_else(no_token)?.token),
        }
    }

    /// The token of `sless dev` is for its own endpoint: it is not sent to another server.
    fn dev_token_for(&self, endpoint: &str) -> Result<String, Failure> {
        let dev = self.dev_file()?.filter(|dev| dev.endpoint == endpoint.trim_end_matches('/'));
        dev.map(|dev| dev.token).ok_or_else(no_token)
    }

    /// What the `sless dev` of the data folder wrote about itself, if it runs.
    pub(crate) fn dev_file(&self) -> Result<Option<DevFile>, Failure> {
        let Some(folder) = self.existing_data_folder() else { return Ok(None) };
        DevFile::read(&folder).map_err(|e| Failure::new(Exit::Failure, format!("{e:#}")))
    }

    /// The data folder of a `sless dev` that runs here, or ran.
    pub(crate) fn existing_data_folder(&self) -> Option<PathBuf> {
        if let Some(data) = &self.data {
            return Some(data.clone());
        }
        let here = std::env::current_dir().ok()?;
        here.ancestors().map(|folder| folder.join(DATA_FOLDER)).find(|folder| folder.is_dir())
    }

    /// The data folder for a `sless dev` to run with.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| PathBuf::from(DATA_FOLDER))
    }
}

fn no_endpoint() -> Failure {
    Failure::new(Exit::Usage, "there is no endpoint: no `sless dev` runs here, and none is set")
        .remedy("start `sless dev`, or set --endpoint and --token (SLESS_ENDPOINT, SLESS_TOKEN)")
}

fn no_token() -> Failure {
    Failure::new(Exit::Usage, "there is no token")
        .remedy("set --token or SLESS_TOKEN, or `token` in the file of settings")
}

#[expect(clippy::disallowed_methods, reason = "where the user's files are")]
fn default_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("sless").join("config.toml"))
}

fn read(path: &Path) -> Result<File, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let size = std::fs::metadata(path).map_err(|e| usage(format!("read {}: {e}", path.display())))?.len();
    if size > MAX_FILE_BYTES {
        return Err(usage(format!("{} has {size} bytes, which is no file of settings", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|e| usage(format!("read {}: {e}", path.display())))?;
    parse(&text).map_err(|e| usage(format!("{}: {e}", path.display())))
}

fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        parse(text).unwrap()
    }

    #[test]
    fn an_option_beats_the_file_which_beats_the_default() {
        let text = "endpoint = \"http://file\"\ntoken = \"t\"\noutput = \"json\"\n";
        let global = Global { endpoint: Some("http://flag".into()), token: Some(String::new()), ..Global::default() };
        let settings = Settings::join(global, file(text));
        assert_eq!(settings.endpoint.as_deref(), Some("http://flag"));
        assert_eq!(settings.token.as_deref(), Some("t"), "an empty variable is no setting");
        assert_eq!(settings.output, Format::Json);
        assert_eq!(Settings::join(Global::default(), File::default()).output, Format::Table);
        let global = Global { output: Some(Format::Table), ..Global::default() };
        assert_eq!(Settings::join(global, file(text)).output, Format::Table);
    }

    #[test]
    fn a_misspelt_setting_is_shown_with_its_line() {
        let error = parse("token = \"t\"\nend_point = \"x\"\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("end_point") && error.contains("`endpoint`"), "{error}");
    }

    #[test]
    fn the_token_of_a_dev_server_stays_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let dev = DevFile {
            endpoint: "http://127.0.0.1:9090".into(),
            internal: "http://127.0.0.1:9091".into(),
            token: sless_core::auth::sign(
                &"s".repeat(32),
                "dev",
                sless_core::auth::MAX_LIFETIME,
                jiff::Timestamp::UNIX_EPOCH,
            )
            .unwrap(),
            pid: 1,
        };
        dev.write(folder.path()).unwrap();
        let with = |endpoint: &str| {
            let global =
                Global { endpoint: Some(endpoint.into()), data: Some(folder.path().into()), ..Global::default() };
            Settings::join(global, File::default()).client().map(|c| c.endpoint().to_owned())
        };
        assert_eq!(with("http://127.0.0.1:9090/").unwrap(), "http://127.0.0.1:9090");
        assert!(with("http://example.org").unwrap_err().text().contains("there is no token"));

        let global = Global { data: Some(folder.path().into()), ..Global::default() };
        assert_eq!(Settings::join(global, File::default()).client().unwrap().endpoint(), "http://127.0.0.1:9090");
    }

    #[test]
    fn without_anything_the_remedy_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let global = Global { data: Some(folder.path().into()), ..Global::default() };
        let failure = Settings::join(global, File::default()).client().unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.text().contains("start `sless dev`"), "{}", failure.text());
    }
}
