//! `Secrets`: values that can be written and used, never read back by their owner.

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::Timestamp;
use crate::names::SecretName;
use crate::tenant::Namespace;

/// A secret's value. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(pub String);

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// The most bytes of a value.
pub const MAX_SECRET_BYTES: usize = 64 << 10;

/// What may be known of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretInfo {
    /// Its name.
    pub name: SecretName,
    /// When it was first written.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last written.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// Write-only values, encrypted at rest.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// Writes it.
    async fn put(&self, namespace: Namespace, name: &SecretName, value: SecretValue) -> Result<SecretInfo>;
    /// Removes it; [`super::Error::NotFound`].
    async fn delete(&self, namespace: Namespace, name: &SecretName) -> Result<()>;
    /// All of a namespace, by name.
    async fn list(&self, namespace: Namespace) -> Result<Vec<SecretInfo>>;
    /// The value, for the platform's own use when it makes a function ready.
    async fn get(&self, namespace: Namespace, name: &SecretName) -> Result<Option<SecretValue>>;
    /// Each secret that is written or removed from now on.
    fn watch(&self) -> BoxStream<'static, (Namespace, SecretName)>;
}
