//! Triggers: what makes a function run. For now `http`; `cron` and `iot` are of the same kind.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::names::FunctionName;
use crate::resource::{Condition, Metadata, Resource};

/// What its owner sets: the function, and one way to reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSpec {
    /// The function that runs; it may come later than the trigger.
    pub function: FunctionName,
    /// Runs on HTTP calls at `/fn/{namespace}/{function}/`.
    pub http: HttpTrigger,
}

/// An http trigger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HttpTrigger {
    /// Who may call.
    pub auth: HttpAuth,
}

/// Who may call an http trigger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum HttpAuth {
    /// Everyone.
    #[default]
    None,
}

/// What the platform says of a trigger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TriggerStatus {
    /// `Ready`.
    pub conditions: Vec<Condition>,
    /// When it last ran its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_fired: Option<Timestamp>,
    /// Where it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// Name, namespace, generation.
    #[serde(flatten)]
    pub metadata: Metadata,
    /// What its owner set.
    pub spec: TriggerSpec,
    /// What the platform reports.
    #[serde(default)]
    pub status: TriggerStatus,
}

impl Resource for Trigger {
    const KIND: &'static str = "trigger";
    type Spec = TriggerSpec;
    type Status = TriggerStatus;
    fn from_parts(metadata: Metadata, spec: TriggerSpec, status: TriggerStatus) -> Self {
        Self { metadata, spec, status }
    }
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    fn spec(&self) -> &TriggerSpec {
        &self.spec
    }
    fn status(&self) -> &TriggerStatus {
        &self.status
    }
}
