//! What an instance may use: the sum of its memories and tables, and the number of its parts.

use std::sync::Arc;

use wasmtime::{ResourceLimiter, Result};

use crate::call::CallState;
use crate::settings::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLE_ELEMENTS, MAX_TABLES};

/// Tables are counted into memory: an element is a pointer.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// Counts what an instance uses and refuses more than its function may have.
pub(crate) struct Limits {
    limit_bytes: usize,
    memory_bytes: usize,
    table_bytes: usize,
    /// What the last growth added, in case it then fails.
    pending_bytes: usize,
    call: Option<Arc<CallState>>,
}

impl Limits {
    pub(crate) fn new(memory_mb: u32, call: Arc<CallState>) -> Self {
        let limit_bytes = (memory_mb as usize) << 20;
        Self { limit_bytes, memory_bytes: 0, table_bytes: 0, pending_bytes: 0, call: Some(call) }
    }

    pub(crate) fn serve(&mut self, call: Option<Arc<CallState>>) {
        if let Some(call) = &call {
            call.memory_is(self.memory_bytes as u64);
        }
        self.call = call;
    }

    fn refuse(&self) -> bool {
        if let Some(call) = &self.call {
            call.memory_refused();
        }
        false
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let more = desired.saturating_sub(current);
        let total = self.memory_bytes.saturating_add(more);
        self.pending_bytes = 0;
        if total > self.limit_bytes {
            return Ok(self.refuse());
        }
        self.memory_bytes = total;
        self.pending_bytes = more;
        if let Some(call) = &self.call {
            call.memory_is(total as u64);
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        // Called for refused growths too, when nothing is pending.
        self.memory_bytes -= std::mem::take(&mut self.pending_bytes);
        self.refuse();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        // The function table of the code itself is not the guest's doing, so only what all tables may hold is bounded.
        let more = desired.saturating_sub(current).saturating_mul(ELEMENT_BYTES);
        let total = self.table_bytes.saturating_add(more);
        if desired > MAX_TABLE_ELEMENTS || total > 4 * MAX_TABLE_ELEMENTS * ELEMENT_BYTES {
            return Ok(self.refuse());
        }
        self.table_bytes = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        MAX_CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES as usize
    }
}
