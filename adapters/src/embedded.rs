//! The embedded world: every port of one process, in one data folder.
//!
//! ```text
//! lock               held by the process that has the folder open; its id
//! state.db           functions, triggers, namespaces, versions, secrets (encrypted)
//! invocations.db     the invocation log
//! blobs/             code, artifacts, build logs
//! logs/              what functions print
//! keys/              secrets of 32 bytes, each in a file that only its owner reads
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sless_core::ports::{Blobs, Clock, Limits, Logs, Records, Resources, Secrets};

use crate::blobs::folder::FolderBlobs;
use crate::clock::SystemClock;
use crate::limits::local::LocalLimits;
use crate::logs::files::{Bounds, FileLogs};
use crate::records::sqlite::SqliteRecords;
use crate::resources::sqlite::resources;
use crate::secrets::sqlite::SqliteSecrets;
use crate::sqlite::{Database, Durability, OpenError, Step};

mod key;
mod lock;

pub use key::key_file;

/// The key that encrypts secrets.
const SECRETS_KEY: &str = "secrets";

pub(crate) const STATE: &[Step] = &[(1, "first", include_str!("../migrations/state/0001_first.sql"))];
pub(crate) const INVOCATIONS: &[Step] = &[(1, "first", include_str!("../migrations/invocations/0001_first.sql"))];

/// Why a data folder does not open.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it open.
    #[error("the data folder {} is in use by {}; end that process, or choose another folder", path.display(), owner(*pid))]
    InUse {
        /// The folder.
        path: PathBuf,
        /// That process, where it says so.
        pid: Option<u32>,
    },
    /// A newer program wrote it.
    #[error("{} was written by a newer sless (schema {found}, this one knows {known}); use that one, or choose another data folder", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// A key's name is not one.
    #[error("`{0}` is not a key's name: lower-case letters, digits and hyphens")]
    KeyName(String),
    /// A key file is not one.
    #[error("the key file {} has {found} instead of 64 hex digits; restore it from a backup (what was encrypted or signed with it needs it), or remove it to have a new one made", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is in it.
        found: String,
    },
    /// The system refused something.
    #[error("open {}", path.display())]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// Why it was not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    fn open<E: Into<Box<dyn std::error::Error + Send + Sync>>>(path: &Path) -> impl Fn(E) -> Self {
        move |source| Self::Open { path: path.to_owned(), source: source.into() }
    }
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// What differs between a user's data folder and a test's.
#[derive(Clone)]
pub struct Options {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How much of functions' logs is kept.
    pub logs: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), logs: Bounds::default() }
    }
}

/// The ports of an open data folder.
#[derive(Clone)]
pub struct Embedded {
    /// Functions, triggers, namespaces.
    pub resources: Resources,
    /// Versions and invocations.
    pub records: Arc<dyn Records>,
    /// Code, artifacts, build logs.
    pub blobs: Arc<dyn Blobs>,
    /// Secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Rate limits.
    pub limits: Arc<dyn Limits>,
    /// Function logs.
    pub logs: Arc<dyn Logs>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    files: Arc<FileLogs>,
    databases: [Database; 2],
    lock: Arc<lock::Lock>,
}

/// Opens a data folder, or makes it. Blocks no thread of the runtime for longer than a few milliseconds.
pub async fn open(dir: &Path, options: Options) -> Result<Embedded, Error> {
    let lock = lock::Lock::take(dir)?;
    key::clean(dir)?;
    let secrets_key = key_file(dir, SECRETS_KEY)?;
    let state = database(dir.join("state.db"), STATE, Durability::Power).await?;
    let invocations = database(dir.join("invocations.db"), INVOCATIONS, Durability::Process).await?;
    let at = |name: &str| dir.join(name);
    let blobs = FolderBlobs::open(&at("blobs")).map_err(Error::open(&at("blobs")))?;
    let clock = options.clock;
    let files = FileLogs::open(&at("logs"), options.logs, Arc::clone(&clock)).map_err(Error::open(&at("logs")))?;
    let files = Arc::new(files);
    let resources = resources(state.clone(), Arc::clone(&clock)).await.map_err(Error::open(&at("state.db")))?;
    let secrets = SqliteSecrets::new(state.clone(), &secrets_key, Arc::clone(&clock)).await;
    Ok(Embedded {
        resources,
        records: Arc::new(SqliteRecords::new(state.clone(), invocations.clone())),
        blobs: Arc::new(blobs),
        secrets: Arc::new(secrets.map_err(Error::open(&at("state.db")))?),
        limits: Arc::new(LocalLimits::default()),
        logs: Arc::clone(&files) as Arc<dyn Logs>,
        clock,
        files,
        databases: [state, invocations],
        lock: Arc::new(lock),
    })
}

async fn database(path: PathBuf, steps: &[Step], durability: Durability) -> Result<Database, Error> {
    Database::open(&path, steps, durability).await.map_err(|error| match error {
        OpenError::Newer { found, known } => Error::Newer { path, found, known },
        other => Error::open(&path)(other),
    })
}

impl Embedded {
    /// Ends it cleanly: what was taken is written, then the folder is free for another process. The ports answer with
    /// errors afterwards.
    pub async fn close(self) {
        self.files.close().await;
        for database in &self.databases {
            database.close().await;
        }
        self.lock.release();
    }
}

#[cfg(test)]
mod tests;
