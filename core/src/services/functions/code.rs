//! A function's code: uploaded, given back, gone back to.

use super::{Functions, not_there, source_key};
use crate::digest::Digest;
use crate::function::{Function, FunctionSpec, Runtime};
use crate::names::{FunctionKey, FunctionName};
use crate::page::PageRequest;
use crate::ports::{self, BlobKey, BlobMeta, BuildError, ByteStream, Checked};
use crate::problem::{Code, Problem};
use crate::resource::ResourceVersion;
use crate::tenant::Namespace;
use crate::version::{Version, VersionCause, VersionNumber, VersionState};

/// What an upload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// A WebAssembly component.
    Component,
}

impl UploadKind {
    fn extension(self) -> &'static str {
        match self {
            Self::Component => "wasm",
        }
    }

    fn fits(self, runtime: Runtime) -> bool {
        match self {
            Self::Component => runtime == Runtime::Wasm,
        }
    }
}

/// What an upload or a rollback made.
#[derive(Debug, Clone)]
pub struct Uploaded {
    /// The function now.
    pub function: Function,
    /// The version that is of this code and these settings.
    pub version: Version,
    /// What its owner should know though it was accepted.
    pub notes: Vec<String>,
    /// False where this very code and settings were there already: no new version.
    pub changed: bool,
}

/// A function's code as uploaded.
pub struct Source {
    /// Its bytes.
    pub stream: ByteStream,
    /// A name to save it under.
    pub file_name: String,
    /// Its media type.
    pub content_type: &'static str,
    /// Its digest.
    pub sha256: Option<Digest>,
}

impl Functions {
    /// Stores code, checks it, makes a version; the build begins behind it. The same code again makes no version.
    pub async fn upload(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        expected: Option<ResourceVersion>,
        kind: UploadKind,
        body: ByteStream,
    ) -> Result<Uploaded, Problem> {
        let function = self.present(namespace, name).await?;
        if !kind.fits(function.spec.runtime) {
            return Err(Problem::new(
                Code::Invalid,
                format!(
                    "the function's runtime is `{}`, which does not take a component; set runtime to `wasm` first",
                    function.spec.runtime
                ),
            ));
        }
        // Nothing is collected while the new code is not referred to yet.
        let _open = self.0.gate.hold().await;
        let key = BlobKey::source(&FunctionKey::new(namespace, name.clone()), self.0.clock.now(), kind.extension());
        let meta =
            self.0.blobs.put(&key, body, self.0.settings.max_upload_bytes).await.map_err(|error| match error {
                ports::Error::TooLarge { limit } => Problem::new(
                    Code::PayloadTooLarge,
                    format!(
                        "the upload is larger than {limit} bytes; make it smaller, for example with `wasm-tools strip`"
                    ),
                ),
                other => other.into(),
            })?;
        let accepted = self.accept(namespace, name, expected, kind, &key, &meta).await;
        // Refused, or the same code as before: the new blob is needed by nobody. A failure of the platform may have come
        // after the change, whose spec and version then refer to it: that is left to the janitor, who looks.
        let needless = match &accepted {
            Ok(uploaded) => uploaded.function.spec.s3_key.as_deref() != Some(key.as_str()),
            Err(problem) => !matches!(problem.code, Code::Unavailable | Code::Internal),
        };
        if needless {
            self.0.blobs.delete(&key).await?;
        }
        accepted
    }

    async fn accept(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        expected: Option<ResourceVersion>,
        kind: UploadKind,
        key: &BlobKey,
        meta: &BlobMeta,
    ) -> Result<Uploaded, Problem> {
        if meta.size_bytes == 0 {
            return Err(Problem::new(Code::InvalidComponent, "the body is empty; send the bytes of a component"));
        }
        let runtime = self.present(namespace, name).await?.spec.runtime;
        let Checked { notes } = self.0.builds.check(runtime, key).await.map_err(refused)?;
        let (function, changed) = self
            .change(namespace, name, expected, VersionCause::Upload, Some(meta.size_bytes), |present| {
                if !kind.fits(present.spec.runtime) {
                    return Err(Problem::new(
                        Code::Conflict,
                        "the function's runtime was changed during the upload; send it again",
                    ));
                }
                if present.spec.sha256 == Some(meta.digest) {
                    return Ok(present.spec.clone());
                }
                Ok(FunctionSpec { s3_key: Some(key.to_string()), sha256: Some(meta.digest), ..present.spec.clone() })
            })
            .await?;
        self.outcome(function, VersionCause::Upload, notes, changed).await
    }

    /// The code of the newest version, byte for byte.
    pub async fn source(&self, namespace: Namespace, name: &FunctionName) -> Result<Source, Problem> {
        let function = self.present(namespace, name).await?;
        let serving = match function.status.version {
            Some(number) => self.0.records.version(function.metadata.uid, number).await?.spec,
            None => function.spec.clone(),
        };
        let Some(key) = source_key(&serving) else {
            return Err(Problem::new(Code::NotFound, format!("function `{name}` has no code yet; upload it first")));
        };
        let stream = self.0.blobs.get(&key).await?;
        Ok(Source {
            stream,
            file_name: format!("{name}.wasm"),
            content_type: "application/wasm",
            sha256: serving.sha256,
        })
    }

    /// Goes back to the code, runtime and settings of an older version. That makes a new version, without a build.
    pub async fn rollback(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        to: VersionNumber,
        expected: Option<ResourceVersion>,
    ) -> Result<Uploaded, Problem> {
        let function = self.present(namespace, name).await?;
        let _open = self.0.gate.hold().await;
        let uid = function.metadata.uid;
        let target = match self.0.records.version(uid, to).await {
            Ok(version) => version,
            Err(ports::Error::NotFound { .. }) => return Err(self.no_such_version(&function, to).await?),
            Err(error) => return Err(error.into()),
        };
        match &target.state {
            VersionState::Ready { .. } => {}
            VersionState::Failed { error } => {
                return Err(Problem::new(
                    Code::Conflict,
                    format!("version {to} never served: {error}; choose another one"),
                ));
            }
            VersionState::Pending | VersionState::Superseded => {
                return Err(Problem::new(Code::Conflict, format!("version {to} was not built; choose another one")));
            }
        }
        let cause = VersionCause::Rollback { to };
        let (function, changed) = self
            .change(namespace, name, expected, cause, Some(target.source_bytes), |present| {
                if present.metadata.uid == uid { Ok(target.spec.clone()) } else { Err(not_there(name)) }
            })
            .await?;
        self.outcome(function, cause, Vec::new(), changed).await
    }

    async fn no_such_version(&self, function: &Function, to: VersionNumber) -> Result<Problem, Problem> {
        let newest = self.0.records.versions(function.metadata.uid, PageRequest { limit: 50, cursor: None }).await?;
        let numbers: Vec<_> = newest.items.iter().map(|version| version.number.to_string()).collect();
        let there =
            if numbers.is_empty() { "it has none yet".to_owned() } else { format!("there are {}", numbers.join(", ")) };
        Ok(Problem::new(Code::NotFound, format!("function `{}` has no version {to}; {there}", function.metadata.name)))
    }

    async fn outcome(
        &self,
        function: Function,
        cause: VersionCause,
        notes: Vec<String>,
        changed: bool,
    ) -> Result<Uploaded, Problem> {
        let version = self.begin_version(&function, cause, None).await?;
        Ok(Uploaded { function: self.shown(function), version, notes, changed })
    }
}

fn refused(error: BuildError) -> Problem {
    match error {
        BuildError::Rejected { reason, .. } => Problem::new(Code::InvalidComponent, reason),
        BuildError::TooLarge { reason } => Problem::new(Code::PayloadTooLarge, reason),
        BuildError::Failed { .. } => Problem {
            code: Code::Unavailable,
            detail: "the upload could not be checked; try again".to_owned(),
            errors: Vec::new(),
            source: Some(Box::new(error)),
        },
    }
}
