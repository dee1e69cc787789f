//! The invocation log: one row a call.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;
use crate::names::FunctionName;
use crate::outcome::Outcome;
use crate::tenant::Namespace;
use crate::version::VersionNumber;

/// A call's own id, UUIDv7 (RFC 9562): sorts by time. It is the platform's `X-Request-Id` where the client sent none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct InvocationId(pub Uuid);

impl InvocationId {
    /// A new id.
    pub fn now() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for InvocationId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

// Names are `tt`: derives see a `literal` that went through a macro as a group and overlook it.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident $name:tt,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $name)] $variant,)*
        }
        impl $type {
            /// All there are.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];
            /// The stable word for it.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
            /// The one of a word.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words! {
    /// How cold a call's start was.
    ColdGrade {
        /// An instance or container was reused.
        Warm "warm",
        /// Code in memory, fresh instance.
        Instance "instance",
        /// Artifact on local disk: mapped, linked, instantiated.
        Code "code",
        /// Artifact fetched from the object store first.
        Artifact "artifact",
        /// A pod or process had to start.
        Container "container",
    }
}

words! {
    /// What made a function run.
    TriggerKind {
        /// A call at `/fn`.
        Http "http",
        /// `POST …/invoke`.
        Invoke "invoke",
        /// A schedule.
        Cron "cron",
        /// An event of a device.
        Iot "iot",
        /// `POST …/invoke-async`.
        Async "async",
        /// A one-shot job.
        Job "job",
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// Its id.
    pub id: InvocationId,
    /// Whose function.
    pub namespace: Namespace,
    /// Which function.
    pub function: FunctionName,
    /// That function's uid.
    pub function_uid: Uuid,
    /// Which version served it.
    pub version: VersionNumber,
    /// What made it run.
    pub trigger: TriggerKind,
    /// The client's `X-Request-Id`, if it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// When it came.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// From the request's head to the response's end, in microseconds.
    pub duration_us: u64,
    /// The HTTP status; 499 when the client went away before there was one.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// How cold its start was; none where no instance was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdGrade>,
    /// Processor time of the function in microseconds.
    pub cpu_us: u64,
    /// The most memory that the function had at once, in bytes.
    pub peak_memory_bytes: u64,
    /// Body bytes from the client.
    pub bytes_in: u64,
    /// Body bytes to the client.
    pub bytes_out: u64,
    /// The end of what it logged, at most [`LOG_TAIL_BYTES`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_tail: String,
    /// One sentence where the platform ended the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How much of a call's log its row keeps.
pub const LOG_TAIL_BYTES: usize = 2 << 10;
