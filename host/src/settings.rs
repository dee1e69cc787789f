//! What a host may use, with the reasons for the numbers.

use std::time::Duration;

/// How large a host is and how long it waits. All fields have defaults that suit one tenant on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Calls at once over all functions, and so instances at once. Each reserves about 4 GiB of address space.
    pub instances: u32,
    /// Instances that wait for their next call, for functions with `reuse`; they come on top of `instances`.
    pub idle_instances: u32,
    /// How long an instance waits before it goes.
    pub idle_timeout: Duration,
    /// The largest `memoryMb` that fits, in bytes.
    pub memory_bytes: u64,
    /// Core instances of a component on average. Python links 14 modules.
    pub core_instances_each: u32,
    /// Tables of a component on average.
    pub tables_each: u32,
    /// Memory of a slot that stays resident between calls, in bytes: no page faults when the slot is used again.
    pub keep_resident_bytes: u64,
    /// Slots whose memory stays resident; `keep_resident_bytes` times this is what an idle host may hold.
    pub warm_slots: u32,
    /// How long a call waits for a place before it is refused.
    pub queue_wait: Duration,
    /// Calls that wait at once; the next is refused at once.
    pub queue_calls: u32,
    /// Compiled code that stays mapped, in bytes.
    pub code_cache_bytes: u64,
    /// Artifacts that stay on local disk, in bytes.
    pub disk_cache_bytes: u64,
    /// Outbound connections.
    pub egress: EgressSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            instances: 1000,
            idle_instances: 64,
            idle_timeout: Duration::from_secs(60),
            memory_bytes: 2048 << 20,
            core_instances_each: 20,
            tables_each: 4,
            // A Python request touches about 10 MiB; Rust, C and JavaScript far less.
            keep_resident_bytes: 16 << 20,
            warm_slots: 64,
            // Long enough for a burst of a thousand quick calls at a function of 100 places.
            queue_wait: Duration::from_secs(5),
            queue_calls: 4096,
            code_cache_bytes: 1 << 30,
            disk_cache_bytes: 4 << 30,
            egress: EgressSettings::default(),
        }
    }
}

/// Bounds of outbound connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressSettings {
    /// Connections of a function at once, idle ones among them.
    pub connections_each: u32,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// For the look-up of a name, the connection and the TLS handshake together, at most.
    pub connect_timeout: Duration,
    /// Until the head of the response, at most.
    pub first_byte_timeout: Duration,
    /// Between two pieces of a response, at most.
    pub between_bytes_timeout: Duration,
    /// Certificates (DER) that are trusted instead of the machine's.
    pub roots: Option<Vec<Vec<u8>>>,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            connections_each: 64,
            idle_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(60),
            between_bytes_timeout: Duration::from_secs(60),
            roots: None,
        }
    }
}

/// Bytes of all header names and values that are passed on, either way. Proxies in front allow 8 to 64 KiB.
pub const MAX_HEADER_BYTES: usize = 64 << 10;
/// Header fields that are passed on, either way.
pub const MAX_HEADERS: usize = 256;
/// Between two looks of the ticker: the longest that a computing guest runs before others get their turn.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Handles that a guest may hold at once: streams, bodies, headers, timers.
pub(crate) const MAX_RESOURCES: usize = 4096;
/// Bytes that a guest may hand over in one host call.
pub(crate) const HOSTCALL_BYTES: usize = 4 << 20;
/// Random bytes that a guest gets in one host call; they are made in the host's memory.
pub(crate) const MAX_RANDOM_BYTES: u64 = 1 << 20;
/// Core instances, memories and tables in one component: what real toolchains link, and some more.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// See [`MAX_CORE_INSTANCES`].
pub(crate) const MAX_MEMORIES: u32 = 4;
/// See [`MAX_CORE_INSTANCES`].
pub(crate) const MAX_TABLES: u32 = 64;
/// Elements in one table. Python's function table has about 20,000.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 100_000;
/// Pieces of a response that wait for the client, and the size of one: a guest is at most 1 MiB ahead of its client.
pub(crate) const BODY_CHUNKS: usize = 7;
/// See [`BODY_CHUNKS`].
pub(crate) const BODY_CHUNK_BYTES: usize = 128 << 10;
