//! `Resources`: functions and triggers with create, read, update, delete and watch. SQLite or Kubernetes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Result;
use crate::Timestamp;
use crate::function::Function;
use crate::page::{Page, PageRequest};
use crate::resource::{Resource, ResourceVersion};
use crate::tenant::Namespace;
use crate::trigger::Trigger;

/// A change of an object.
#[derive(Debug, Clone)]
pub enum Event<T> {
    /// It is there in this state. Also sent for each object that is there when the watch begins.
    Applied(T),
    /// It is gone; this was its last state.
    Deleted(T),
    /// All objects that are there were sent since the watch began or since the last of these. What was not among them
    /// is gone. Comes again when the watch had to begin anew.
    Synced,
}

/// Objects of one kind. Changes are durable when acknowledged.
#[async_trait]
pub trait Store<T: Resource>: Send + Sync {
    /// Makes an object of generation 1; [`super::Error::AlreadyExists`].
    async fn create(&self, namespace: Namespace, name: &str, spec: T::Spec) -> Result<T>;
    /// One object.
    async fn get(&self, namespace: Namespace, name: &str) -> Result<Option<T>>;
    /// Objects of a namespace by name.
    async fn list(&self, namespace: Namespace, page: PageRequest) -> Result<Page<T>>;
    /// Replaces the spec; the generation rises where it differs, else nothing changes at all.
    /// [`super::Error::NotFound`]; [`super::Error::Conflict`] where `expected` is given and is not its present state.
    async fn update_spec(
        &self,
        namespace: Namespace,
        name: &str,
        expected: Option<&ResourceVersion>,
        spec: T::Spec,
    ) -> Result<T>;
    /// Replaces the status of the object with this uid and state; [`super::Error::NotFound`], [`super::Error::Conflict`].
    async fn update_status(&self, object: &T, status: T::Status) -> Result<T>;
    /// Deletes it; answers its last state. [`super::Error::NotFound`], [`super::Error::Conflict`].
    async fn delete(&self, namespace: Namespace, name: &str, expected: Option<&ResourceVersion>) -> Result<T>;
    /// All objects of all namespaces, then every change, in order for each object. States in between may be left out.
    fn watch(&self) -> BoxStream<'static, Event<T>>;
}

/// A namespace that was ensured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceInfo {
    /// Its name.
    pub name: Namespace,
    /// Uid.
    pub uid: Uuid,
    /// When it was first ensured.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// Namespaces.
#[async_trait]
pub trait Namespaces: Send + Sync {
    /// Makes it where it is not there; idempotent.
    async fn ensure(&self, namespace: Namespace) -> Result<NamespaceInfo>;
    /// It, if it was ensured.
    async fn get(&self, namespace: Namespace) -> Result<Option<NamespaceInfo>>;
}

/// All kinds together.
#[derive(Clone)]
pub struct Resources {
    /// Namespaces.
    pub namespaces: Arc<dyn Namespaces>,
    /// Functions.
    pub functions: Arc<dyn Store<Function>>,
    /// Triggers.
    pub triggers: Arc<dyn Store<Trigger>>,
}
