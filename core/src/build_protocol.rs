//! What a builder's parent and the builder say to each other.
//!
//! A builder is a short-lived process that does one [`Job`], read as JSON from its standard input, and answers with one
//! [`Reply`] as JSON on its standard output; its standard error is the build log. The parent believes nothing that it
//! can check itself: the builder has read a tenant's code.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::function::Runtime;

/// The most bytes of a job: a few paths and numbers.
pub const MAX_JOB_BYTES: u64 = 64 << 10;
/// The most bytes of a reply; reasons that name imports are cut well below it.
pub const MAX_REPLY_BYTES: u64 = 64 << 10;
/// The file in [`Task::Build::output`] that holds the compiled bytes.
pub const ARTIFACT_FILE: &str = "artifact";
/// The file in [`Task::Build::output`] that holds newly compiled functions, for the cache; empty if there are none.
pub const PACK_FILE: &str = "functions.pack";
/// The file in [`Task::PrepareContext::output`] that holds the build context.
pub const CONTEXT_FILE: &str = "context.tar.gz";
/// The file in [`Task::PrepareContext::output`] that holds the user's files, as their owner gets them back.
pub const SOURCE_FILE: &str = "source.zip";
/// What names of pack files in a cache folder end in.
pub const PACK_EXTENSION: &str = "pack";
/// The file in a prepared engine's folder that says what it is: a [`PreparedEngine`] as JSON.
pub const ENGINE_FILE: &str = "engine.json";
/// The file that [`Task::Bundle`] makes; its source map is beside it, with `.map` behind the name.
pub const BUNDLE_FILE: &str = ".sless-bundle.mjs";
/// The packages of Python source, beside it: a tar.gz with all of them below `function/`.
pub const PACKAGES_FILE: &str = ".sless-packages.tar.gz";
/// Raised whenever builders write or read something else in a prepared engine's folder: an older one is prepared again.
pub const PREPARED_FORMAT: u32 = 1;
/// The uid and gid a builder takes when it is started as root: the one that distroless images call `nonroot`.
pub const BUILDER_UID: u32 = 65532;

/// One job of a builder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// What to do.
    pub task: Task,
    /// What it may use.
    #[serde(default)]
    pub limits: Limits,
    /// The parent's process id: the builder ends when that process does.
    #[serde(default)]
    pub parent: Option<u32>,
}

/// What a builder is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "mode", deny_unknown_fields)]
pub enum Task {
    /// Say which engine artifacts are made for, and which layers of the sandbox this machine lacks.
    Engine {},
    /// Check a component.
    Check {
        /// The component.
        input: PathBuf,
    },
    /// Check an archive of source and make a build context of it.
    PrepareContext {
        /// What the source is for.
        runtime: Runtime,
        /// `file.export`, where it is not the default.
        #[serde(default)]
        entrypoint: Option<String>,
        /// The archive: a zip.
        input: PathBuf,
        /// The only folder that is written to. [`CONTEXT_FILE`] and [`SOURCE_FILE`] appear in it.
        output: PathBuf,
    },
    /// Check and compile a component.
    Build {
        /// The component.
        input: PathBuf,
        /// The only folder that is written to. [`ARTIFACT_FILE`] and [`PACK_FILE`] appear in it.
        output: PathBuf,
        /// Folders with packs of functions compiled earlier, looked at in this order. Read only.
        #[serde(default)]
        caches: Vec<PathBuf>,
    },
    /// Make source a component over its language's engine, check that and compile it.
    BuildSource {
        /// Which language: a runtime that takes source and gives a component.
        runtime: Runtime,
        /// `file.export`.
        entrypoint: String,
        /// The build context: a tar.gz.
        input: PathBuf,
        /// The prepared engine. Read only.
        engine: PathBuf,
        /// Where [`Task::Bundle`] left the source as one file, if it had to be bundled.
        #[serde(default)]
        bundle: Option<PathBuf>,
        /// As in [`Task::Build`].
        output: PathBuf,
        /// As in [`Task::Build`].
        #[serde(default)]
        caches: Vec<PathBuf>,
    },
    /// Unpack the user's files of a build context.
    Unpack {
        /// The build context: a tar.gz.
        input: PathBuf,
        /// An empty folder, the only one that is reached.
        output: PathBuf,
    },
    /// Make one JavaScript file of several.
    Bundle {
        /// `file.export`.
        entrypoint: String,
        /// The bundler, esbuild.
        bundler: PathBuf,
        /// The user's files, unpacked, and the only folder that is reached. [`BUNDLE_FILE`] and its source map appear in it.
        folder: PathBuf,
        /// Installed packages, if there are any. Read only.
        #[serde(default)]
        packages: Option<PathBuf>,
    },
    /// Prepare a language's engine: all that is the same for every function. The engine is the platform's own code, so
    /// the sandbox is left out: it is run, and what runs has to become executable.
    PrepareEngine {
        /// Which language.
        runtime: Runtime,
        /// The engine as its project built it.
        input: PathBuf,
        /// A folder, which the prepared engine is written into.
        output: PathBuf,
    },
}

/// What [`Task::PrepareEngine`] made. The compiled modules are beside it, each in a file named after its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreparedEngine {
    /// [`PREPARED_FORMAT`].
    pub format: u32,
    /// Which language.
    pub runtime: Runtime,
    /// What it was prepared from.
    pub source: Digest,
    /// The engine that it was compiled for.
    pub engine: Digest,
    /// The modules that functions import.
    pub modules: Vec<PreparedModule>,
}

/// A compiled module of a prepared engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreparedModule {
    /// The module, by which functions import it.
    pub wasm: Digest,
    /// SHA-256 of the compiled bytes, and the file's name.
    pub artifact: Digest,
    /// Their number.
    pub size_bytes: u64,
}

/// What one builder may use. What is over is refused, and the answer names the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Wall clock, kept by the parent.
    pub wall_seconds: u32,
    /// Processor time of all threads together.
    pub cpu_seconds: u32,
    /// Memory that can be written (`RLIMIT_DATA`).
    pub memory_bytes: u64,
    /// Size of a component.
    pub component_bytes: u64,
    /// Size of an artifact.
    pub artifact_bytes: u64,
    /// Size of what one build adds to the cache.
    pub pack_bytes: u64,
    /// Threads that compile; 0 stands for one a processor.
    pub threads: u32,
}

impl Default for Limits {
    /// The largest guests that toolchains make (CPython, SpiderMonkey: 13 to 18 MB) compile in 35 s of processor time
    /// to artifacts of 37 MB; these are about four times that, for slower machines and larger applications.
    fn default() -> Self {
        Self {
            wall_seconds: 180,
            cpu_seconds: 150,
            memory_bytes: 3 << 30,
            component_bytes: 64 << 20,
            artifact_bytes: 256 << 20,
            pack_bytes: 256 << 20,
            threads: 0,
        }
    }
}

impl Limits {
    /// The wall clock as a duration.
    pub fn wall(&self) -> Duration {
        Duration::from_secs(self.wall_seconds.into())
    }
}

/// What a builder answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "answer")]
pub enum Reply {
    /// To [`Task::Engine`].
    Engine {
        /// The engine that artifacts are made for.
        engine: Digest,
        /// Layers of the sandbox that could not be had here, each with why.
        degraded: Vec<String>,
    },
    /// To [`Task::Check`]: it can be built.
    Checked {
        /// Its digest.
        wasm: Digest,
        /// What its owner should know.
        notes: Vec<String>,
    },
    /// To [`Task::PrepareContext`]: the context and the user's files are in the output folder.
    Context {
        /// The source hash: equal for equal files, however they were packed.
        source: Digest,
        /// How many files there are.
        files: u64,
        /// What they have in bytes.
        size_bytes: u64,
        /// What their owner should know.
        notes: Vec<String>,
    },
    /// To [`Task::BuildSource`]: the source has several files, or uses packages; bundle it first.
    NeedsBundle {
        /// Whether the source asks for packages and has the lock file that says which.
        packages: bool,
    },
    /// To [`Task::Unpack`] and [`Task::Bundle`].
    Done {},
    /// To [`Task::PrepareEngine`]: it is in the output folder.
    Prepared(PreparedEngine),
    /// To [`Task::Build`] and [`Task::BuildSource`]: the artifact is in the output folder.
    Built {
        /// Digest of the component.
        wasm: Digest,
        /// SHA-256 of the compiled bytes.
        artifact: Digest,
        /// Their number.
        size_bytes: u64,
        /// The engine they are made for.
        engine: Digest,
        /// How the cache did.
        cache: CacheUse,
    },
    /// The code is at fault.
    Rejected {
        /// What is wrong and what to do.
        reason: String,
    },
    /// The code is over a limit of size.
    TooLarge {
        /// Which limit.
        reason: String,
    },
    /// The builder could not do its work.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

impl Reply {
    /// The exit code that goes with the reply, for those who run a builder by hand or as a container.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Engine { .. }
            | Self::Checked { .. }
            | Self::Context { .. }
            | Self::NeedsBundle { .. }
            | Self::Done {}
            | Self::Prepared(_)
            | Self::Built { .. } => 0,
            Self::Rejected { .. } => 10,
            Self::TooLarge { .. } => 11,
            Self::Failed { .. } => 12,
        }
    }
}

/// How the cache of compiled functions did in one build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheUse {
    /// Functions taken from it.
    pub hits: u64,
    /// Functions compiled.
    pub misses: u64,
    /// Names of the packs of the first cache folder that functions were taken from.
    pub packs: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_replies_read_back() {
        let job = Job {
            task: Task::Build { input: "/in".into(), output: "/out".into(), caches: vec!["/cache".into()] },
            limits: Limits::default(),
            parent: Some(7),
        };
        assert_eq!(serde_json::from_str::<Job>(&serde_json::to_string(&job).unwrap()).unwrap(), job);
        let reply = Reply::Rejected { reason: "no".into() };
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(text, r#"{"answer":"rejected","reason":"no"}"#);
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), reply);
    }

    #[test]
    fn a_job_by_hand_needs_little_and_forgives_no_typo() {
        let job: Job = serde_json::from_str(r#"{"task":{"mode":"check","input":"a.wasm"}}"#).unwrap();
        assert_eq!(job.limits, Limits::default());
        assert!(serde_json::from_str::<Job>(r#"{"task":{"mode":"check","input":"a.wasm"},"limit":{}}"#).is_err());
    }
}
