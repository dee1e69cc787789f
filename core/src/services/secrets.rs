//! Secrets: written, listed by name, used by functions, never read back.

use std::sync::Arc;

use super::Namespaces;
use crate::names::SecretName;
use crate::ports::secrets::MAX_SECRET_BYTES;
use crate::ports::{SecretInfo, SecretValue, Secrets};
use crate::problem::{Code, FieldError, Problem};
use crate::tenant::Namespace;

/// Secrets.
#[derive(Clone)]
pub struct SecretsService {
    namespaces: Namespaces,
    secrets: Arc<dyn Secrets>,
}

impl SecretsService {
    pub(super) fn new(namespaces: Namespaces, secrets: Arc<dyn Secrets>) -> Self {
        Self { namespaces, secrets }
    }

    /// Writes a value. Functions that refer to it have the new value with their next call.
    pub async fn put(&self, namespace: Namespace, name: &SecretName, value: String) -> Result<SecretInfo, Problem> {
        self.namespaces.require(namespace).await?;
        if value.len() > MAX_SECRET_BYTES {
            let detail = format!("{} bytes; a secret has at most {MAX_SECRET_BYTES}", value.len());
            return Err(Problem {
                code: Code::PayloadTooLarge,
                ..Problem::invalid(vec![FieldError::new("/value", detail)])
            });
        }
        if value.contains('\0') {
            return Err(Problem::invalid(vec![FieldError::new(
                "/value",
                "a value can't hold a NUL, since it becomes an environment variable",
            )]));
        }
        Ok(self.secrets.put(namespace, name, SecretValue(value)).await?)
    }

    /// Removes it. Functions that refer to it go on with the old value until their next version.
    pub async fn delete(&self, namespace: Namespace, name: &SecretName) -> Result<(), Problem> {
        self.namespaces.require(namespace).await?;
        Ok(self.secrets.delete(namespace, name).await?)
    }

    /// Names and times.
    pub async fn list(&self, namespace: Namespace) -> Result<Vec<SecretInfo>, Problem> {
        self.namespaces.require(namespace).await?;
        Ok(self.secrets.list(namespace).await?)
    }
}
