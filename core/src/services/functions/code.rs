//! A function's code: uploaded, given back, gone back to.

use std::collections::BTreeSet;

use super::{Functions, not_there, source_key};
use crate::digest::Digest;
use crate::function::{Function, FunctionSpec, Runtime};
use crate::names::{FunctionKey, FunctionName};
use crate::page::PageRequest;
use crate::ports::{self, BlobKey, BlobMeta, BuildError, ByteStream, SourceUpload};
use crate::problem::{Code, FieldError, Problem};
use crate::resource::ResourceVersion;
use crate::tenant::Namespace;
use crate::version::{Version, VersionCause, VersionNumber, VersionState};

/// What an upload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// A WebAssembly component.
    Component,
    /// A zip of source.
    Archive,
}

impl UploadKind {
    fn extension(self) -> &'static str {
        match self {
            Self::Component => "wasm",
            Self::Archive => "zip",
        }
    }

    fn fits(self, runtime: Runtime) -> bool {
        (self == Self::Archive) == runtime.code().is_source()
    }

    /// Why it does not fit, with what would.
    fn misfit(self, runtime: Runtime) -> Problem {
        let (given, remedy) = match self {
            Self::Component => ("a component", "send a zip of its source, or set `runtime` to `wasm` first"),
            Self::Archive => (
                "an archive of source",
                "send a component, or set `runtime` to `python3.11`, `nodejs20`, `wasm-python` or `wasm-js` first",
            ),
        };
        let detail = format!("the function's runtime is `{runtime}`, which does not take {given}; {remedy}");
        Problem::invalid(vec![FieldError::new("/spec/runtime", detail)])
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
            return Err(kind.misfit(function.spec.runtime));
        }
        // Nothing is collected while the new code is not referred to yet.
        let _open = self.0.gate.hold().await;
        let (owner, now) = (FunctionKey::new(namespace, name.clone()), self.0.clock.now());
        let sent = BlobKey::source(&owner, now, kind.extension());
        let code = match kind {
            UploadKind::Component => sent.clone(),
            UploadKind::Archive => BlobKey::context(&owner, now),
        };
        let limit = self.0.settings.max_upload_bytes;
        let meta = self.0.blobs.put(&sent, body, limit).await.map_err(|error| too_large(kind, error))?;
        let accepted = self.accept(&function, expected, kind, &sent, &code, &meta).await;
        // Refused, or the same code as before: the new blobs are needed by nobody. A failure of the platform may have come
        // after the change, whose spec and version then refer to them: that is left to the janitor, who looks.
        let needless = match &accepted {
            Ok(uploaded) => uploaded.function.spec.s3_key.as_deref() != Some(code.as_str()),
            Err(problem) => !matches!(problem.code, Code::Unavailable | Code::Internal),
        };
        if needless {
            for key in BTreeSet::from([&sent, &code]) {
                self.0.blobs.delete(key).await?;
            }
        }
        accepted
    }

    /// Checks what was stored under `sent`, and makes a version whose code is under `code`.
    async fn accept(
        &self,
        function: &Function,
        expected: Option<ResourceVersion>,
        kind: UploadKind,
        sent: &BlobKey,
        code: &BlobKey,
        meta: &BlobMeta,
    ) -> Result<Uploaded, Problem> {
        let (namespace, name) = (function.metadata.namespace, function.name());
        // The settings may have been changed while the bytes came in.
        let spec = self.present(namespace, &name).await?.spec;
        if !kind.fits(spec.runtime) {
            return Err(kind.misfit(spec.runtime));
        }
        let (sha256, notes) = match kind {
            UploadKind::Component if meta.size_bytes == 0 => {
                return Err(Problem::new(Code::InvalidComponent, "the body is empty; send the bytes of a component"));
            }
            UploadKind::Archive if meta.size_bytes == 0 => {
                return Err(Problem::new(Code::InvalidSource, "the body is empty; send a zip of the source"));
            }
            UploadKind::Component => {
                let checked = self.0.builds.check(spec.runtime, sent).await;
                (meta.digest, checked.map_err(|error| refused(kind, error))?.notes)
            }
            UploadKind::Archive => {
                let upload = SourceUpload {
                    runtime: spec.runtime,
                    entrypoint: spec.entrypoint,
                    archive: sent.clone(),
                    context: code.clone(),
                };
                let prepared = self.0.builds.prepare(upload).await.map_err(|error| refused(kind, error))?;
                (prepared.source, prepared.notes)
            }
        };
        let (function, changed) = self
            .change(namespace, &name, expected, VersionCause::Upload, Some(meta.size_bytes), |present| {
                if present.spec.runtime.code() != spec.runtime.code() {
                    return Err(Problem::new(
                        Code::Conflict,
                        "the function's runtime was changed during the upload; send it again",
                    ));
                }
                if present.spec.sha256 == Some(sha256) {
                    return Ok(present.spec.clone());
                }
                Ok(FunctionSpec { s3_key: Some(code.to_string()), sha256: Some(sha256), ..present.spec.clone() })
            })
            .await?;
        self.outcome(function, VersionCause::Upload, notes, changed).await
    }

    /// The code of the live version: a component byte for byte, the user's files of a source as a zip.
    pub async fn source(&self, namespace: Namespace, name: &FunctionName) -> Result<Source, Problem> {
        let function = self.present(namespace, name).await?;
        let serving = match function.status.version {
            Some(number) => self.0.records.version(function.metadata.uid, number).await?.spec,
            None => function.spec.clone(),
        };
        let Some(key) = source_key(&serving) else {
            return Err(Problem::new(Code::NotFound, format!("function `{name}` has no code yet; upload it first")));
        };
        let (key, file_name, content_type) = match key.source_of_context() {
            Some(archive) => (archive, format!("{name}.zip"), "application/zip"),
            None => (key, format!("{name}.wasm"), "application/wasm"),
        };
        // The hash of a source is that of its files, not of the archive that they come in.
        let sha256 = serving.sha256.filter(|_| !serving.runtime.code().is_source());
        Ok(Source { stream: self.0.blobs.get(&key).await?, file_name, content_type, sha256 })
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

fn too_large(kind: UploadKind, error: ports::Error) -> Problem {
    match error {
        ports::Error::TooLarge { limit } => {
            let remedy = match kind {
                UploadKind::Component => "make it smaller, for example with `wasm-tools strip`",
                UploadKind::Archive => {
                    "leave out packages that the build installs, and what the function does not need"
                }
            };
            Problem::new(Code::PayloadTooLarge, format!("the upload is larger than {limit} bytes; {remedy}"))
        }
        other => other.into(),
    }
}

fn refused(kind: UploadKind, error: BuildError) -> Problem {
    let code = match kind {
        UploadKind::Component => Code::InvalidComponent,
        UploadKind::Archive => Code::InvalidSource,
    };
    match error {
        BuildError::Rejected { reason, .. } => Problem::new(code, reason),
        BuildError::TooLarge { reason } => Problem::new(Code::PayloadTooLarge, reason),
        BuildError::Failed { .. } => Problem {
            code: Code::Unavailable,
            detail: "the upload could not be checked; try again".to_owned(),
            errors: Vec::new(),
            source: Some(Box::new(error)),
        },
    }
}
