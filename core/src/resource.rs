//! What all stored objects share: metadata, generations, conditions.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;
use crate::tenant::Namespace;

/// Opaque mark of one state of an object; the `ETag`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ResourceVersion(pub String);

/// What every object has beside its spec and status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Whose it is.
    pub namespace: Namespace,
    /// Its name, unique for its kind in the namespace.
    pub name: String,
    /// Differs between an object and a later one of the same name.
    pub uid: Uuid,
    /// Counts changes of the spec, from 1.
    pub generation: u64,
    /// Changes with every change of spec or status.
    pub resource_version: ResourceVersion,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When its spec last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A kind of stored object: metadata, a spec that its owner sets, a status that the platform sets.
pub trait Resource: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Stable word for the kind, as a table or a CRD calls it in singular.
    const KIND: &'static str;
    /// What the owner sets.
    type Spec: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What the platform sets.
    type Status: Clone + PartialEq + Default + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Puts an object together.
    fn from_parts(metadata: Metadata, spec: Self::Spec, status: Self::Status) -> Self;
    /// Its metadata.
    fn metadata(&self) -> &Metadata;
    /// Its spec.
    fn spec(&self) -> &Self::Spec;
    /// Its status.
    fn status(&self) -> &Self::Status;
}

/// One aspect of an object's state, as Kubernetes has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Built`, `Ready`, `RoutesReady`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One CamelCase word for why.
    pub reason: String,
    /// The same for a reader.
    pub message: String,
    /// When `status` last changed.
    #[schema(value_type = String, format = DateTime)]
    pub last_transition_time: Timestamp,
    /// The generation that it speaks of.
    pub observed_generation: u64,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Not known (yet).
    Unknown,
}

/// Sets a condition; the transition time moves only when the status does.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions.iter_mut().find(|c| c.kind == new.kind) {
        Some(old) => {
            let since = if old.status == new.status { old.last_transition_time } else { new.last_transition_time };
            *old = Condition { last_transition_time: since, ..new };
        }
        None => conditions.push(new),
    }
}
