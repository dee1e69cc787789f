//! `Invoker`: makes versions callable. The host in process, or HTTP to a pod.

use std::sync::Arc;

use async_trait::async_trait;

use super::{BlobKey, Blobs, ByteStream, Result};
use crate::call::Target;
use crate::digest::Digest;
use crate::version::Revision;

/// Makes a version callable.
pub trait Invoker: Send + Sync {
    /// A target for the version. Cheap: code is fetched at [`Target::prepare`] or at the first call.
    fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target>;
}

/// Where a host gets compiled bytes from: the object store, or the operator's stream.
#[async_trait]
pub trait Artifacts: Send + Sync {
    /// The bytes of an artifact, not verified yet.
    async fn fetch(&self, artifact: &Digest) -> Result<ByteStream>;
}

/// The object store as a source of artifacts.
pub struct BlobArtifacts(pub Arc<dyn Blobs>);

#[async_trait]
impl Artifacts for BlobArtifacts {
    async fn fetch(&self, artifact: &Digest) -> Result<ByteStream> {
        self.0.get(&BlobKey::artifact(artifact)).await
    }
}
