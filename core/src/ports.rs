//! The ports: what the rest of the system asks of the outside. `adapters`, `host` and `operator` implement them, once
//! for each world; [`crate::testing`] has a contract suite for each, which every implementation runs.

pub mod blobs;
pub mod builds;
pub mod clock;
pub mod invoker;
pub mod limits;
pub mod logs;
pub mod records;
pub mod resources;
pub mod secrets;
pub mod workloads;

pub use blobs::{BlobKey, BlobMeta, Blobs, ByteStream};
pub use builds::{BuildError, BuildJob, Builds, Built, BuiltModule, Checked, Prepared, SourceUpload};
pub use clock::Clock;
pub use invoker::{Artifacts, Invoker};
pub use limits::Limits;
pub use logs::{LogLine, LogQuery, LogStream, Logs, Stream};
pub use records::{InvocationFilter, NewVersion, Records};
pub use resources::{Event, NamespaceInfo, Namespaces, Resources, Store};
pub use secrets::{SecretInfo, SecretValue, Secrets};
pub use workloads::{Image, NoWorkloads, Workloads};

/// What a port can answer besides what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there.
    #[error("{kind} `{name}` is not there")]
    NotFound {
        /// Which kind of thing.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// It is there already.
    #[error("{kind} `{name}` is there already")]
    AlreadyExists {
        /// Which kind of thing.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// It is not in the state that the change was made for.
    #[error("{kind} `{name}` was changed meanwhile; read it again")]
    Conflict {
        /// Which kind of thing.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A cursor that no list gave out.
    #[error("the cursor is not one that a list answered with")]
    InvalidCursor,
    /// More bytes than allowed.
    #[error("larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The stream that was to be stored broke off.
    #[error("the body ended early: {reason}")]
    Interrupted {
        /// Why.
        reason: String,
    },
    /// The store does not answer; trying again may help.
    #[error("{doing}")]
    Unavailable {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is stored can't be read; trying again does not help.
    #[error("{doing}")]
    Corrupt {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Wraps a failure of the store, for `map_err`.
    pub fn unavailable<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Unavailable { doing, source: source.into() }
    }

    /// Wraps unreadable data, for `map_err`.
    pub fn corrupt<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Corrupt { doing, source: source.into() }
    }
}

/// What a port answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;
