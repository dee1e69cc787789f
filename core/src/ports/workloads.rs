//! `Workloads`: functions in containers, built to images and run as processes beside the host. Processes of this machine,
//! or Kubernetes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{BuildError, BuildJob, Result};
use crate::call::Target;
use crate::function::Runtime;
use crate::version::Revision;

/// What a build of a container function made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// What it is known by: `sha256:` and 64 hex digits.
    pub name: String,
    /// What it takes on disk.
    pub size_bytes: u64,
    /// What the build printed, bounded.
    pub log: String,
    /// How long it took; none where the image was there already.
    pub took: Option<Duration>,
}

/// Builds images and runs them.
#[async_trait]
pub trait Workloads: Send + Sync {
    /// Whether functions of a runtime can be built and run here; else what is missing and what to do.
    fn supports(&self, runtime: Runtime) -> Result<(), String>;
    /// Builds the image of a version out of its build context. The same source, runtime and entry point again is the same
    /// image, without a build. Dropping the future ends the build and leaves nothing behind.
    async fn build(&self, job: BuildJob) -> Result<Image, BuildError>;
    /// Whether an image is there.
    async fn exists(&self, image: &str) -> Result<bool>;
    /// A target for a version. Cheap: a process is started at the first call, and stopped when it is idle or when no
    /// target of its version is left. A version with `minReplicas` has one from now on.
    fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target>;
    /// Removes all images but those.
    async fn collect(&self, needed: &BTreeSet<String>) -> Result<()>;
}

/// Where there are no containers: nothing is supported, built or run.
#[derive(Debug, Default)]
pub struct NoWorkloads;

#[async_trait]
impl Workloads for NoWorkloads {
    fn supports(&self, runtime: Runtime) -> Result<(), String> {
        Err(format!("there are no containers here, which `{runtime}` needs"))
    }
    async fn build(&self, job: BuildJob) -> Result<Image, BuildError> {
        let reason = format!("there are no containers here, which `{}` needs", job.runtime);
        Err(BuildError::Rejected { reason, log: String::new() })
    }
    async fn exists(&self, _: &str) -> Result<bool> {
        Ok(false)
    }
    fn target(&self, _: Arc<Revision>) -> Arc<dyn Target> {
        Arc::new(NoWorkloads)
    }
    async fn collect(&self, _: &BTreeSet<String>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Target for NoWorkloads {
    async fn prepare(&self) -> Result<(), crate::Failure> {
        Err(no_containers())
    }
    async fn call(&self, _: crate::Call) -> Result<http::Response<crate::Body>, crate::Failure> {
        Err(no_containers())
    }
}

fn no_containers() -> crate::Failure {
    crate::Failure::new(crate::Outcome::FunctionNotReady, "there are no containers here")
}
