//! What sless is about, without any I/O: nouns, rules, outcomes, the ports to the outside and the use-cases that join them.
//!
//! Every role depends on this crate and this crate on none of them. It opens no file and no socket: whatever does goes
//! through a trait in [`ports`], which `adapters` implements once for each world.

pub mod artifact;
pub mod auth;
pub mod body;
pub mod build_protocol;
pub mod call;
pub mod digest;
pub mod function;
pub mod invocation;
pub mod names;
pub mod outcome;
pub mod page;
pub mod ports;
pub mod problem;
pub mod resource;
pub mod services;
pub mod tenant;
#[cfg(feature = "testing")]
pub mod testing;
pub mod trigger;
pub mod version;

pub use artifact::ArtifactRef;
pub use body::{Body, BodyError};
pub use call::{Call, Target};
pub use digest::Digest;
pub use function::{Function, FunctionSpec, FunctionStatus, Phase, Runtime};
pub use invocation::{ColdGrade, Invocation, InvocationId, TriggerKind};
pub use names::{FunctionKey, FunctionName, SecretName, TriggerName};
pub use outcome::{Failure, Outcome};
pub use page::{Page, PageRequest};
pub use problem::{Code, FieldError, Problem};
pub use tenant::{Namespace, Tenant};
pub use trigger::Trigger;
pub use version::{Version, VersionNumber};

/// A UTC instant; RFC 3339 in JSON.
pub use jiff::Timestamp;
