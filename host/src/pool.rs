//! The engine with its pool of instances, as large as the machine's address space allows.

use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::settings::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLE_ELEMENTS, MAX_TABLES, Settings};

/// Below this many instances a host is of no use.
const FEWEST_INSTANCES: u32 = 1;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
#[error("make an engine with {instances} instances; give the process more address space (ulimit -v, cgroup)")]
pub struct Error {
    /// The smallest number that was tried.
    instances: u32,
    source: wasmtime::Error,
}

/// An engine, and how many instances it really has room for.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) engine: Engine,
    pub(crate) instances: u32,
}

/// Makes the engine. Where the address space does not suffice it halves the pool until it does, and says so.
pub(crate) fn pool(settings: &Settings) -> Result<Pool, Error> {
    let mut instances = settings.instances.max(FEWEST_INSTANCES);
    loop {
        match engine(settings, instances) {
            Ok(engine) => {
                if instances < settings.instances {
                    tracing::warn!(wanted = settings.instances, got = instances, "address space for fewer instances");
                }
                return Ok(Pool { engine, instances });
            }
            Err(error) if instances > FEWEST_INSTANCES => {
                tracing::debug!(instances, error = ?error, "no address space for the pool, trying half of it");
                instances /= 2;
            }
            Err(source) => return Err(Error { instances, source }),
        }
    }
}

fn engine(settings: &Settings, instances: u32) -> wasmtime::Result<Engine> {
    let slots = instances.saturating_add(settings.idle_instances);
    let usize_of = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(slots.saturating_mul(settings.core_instances_each.max(1)))
        .total_memories(slots)
        .total_tables(slots.saturating_mul(settings.tables_each.max(1)))
        .total_stacks(slots)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_tables_per_module(4)
        .table_elements(MAX_TABLE_ELEMENTS)
        // Metadata of an instance, on the heap and only as large as the component's; Python's is about 1 MiB.
        .max_core_instance_size(4 << 20)
        .max_component_instance_size(4 << 20)
        .max_memory_size(usize_of(settings.memory_bytes))
        .max_unused_warm_slots(settings.warm_slots)
        .linear_memory_keep_resident(usize_of(settings.keep_resident_bytes))
        .table_keep_resident(1 << 20)
        .async_stack_keep_resident(64 << 10)
        // One system call finds the dirty pages of a slot, from kernel 6.7 on.
        .pagemap_scan(Enabled::Auto);
    let mut config = sless_engine::runtime_config()?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_larger_than_the_address_space_is_made_smaller() {
        // 100,000 slots of 4 GiB are 400 TiB; x86-64 and ARM give a process 128 TiB.
        let settings = Settings { instances: 100_000, ..Settings::default() };
        let pool = pool(&settings).unwrap();
        assert!((1_000..30_000).contains(&pool.instances), "{}", pool.instances);
    }
}
