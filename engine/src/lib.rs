//! The wasmtime configuration that compiler and host share, and the digest by which they know that they agree.
//!
//! An artifact is native code for one configuration of one version of wasmtime. Everything that changes the code, or
//! what the code expects of its host, is set here and nowhere else, every proposal explicitly: Cargo features of
//! wasmtime change its defaults, and features spread over a build. What only a host cares about (pool sizes) or only a
//! compiler (caches, threads) is not here.
//!
//! WASI 0.3 will be a second [`Variant`] with a configuration, a digest and artifacts of its own, because its
//! concurrency support changes the code; a host then has one engine a variant.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use sless_core::Digest;
use wasmtime::{Config, Engine, Result, WasmBacktraceDetails, WasmFeatures};

/// Which generation of WASI an engine serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// `wasi:http/incoming-handler@0.2`, without component-model concurrency.
    Wasi02,
}

impl Variant {
    /// Its name in the digest.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wasi02 => "wasi-0.2",
        }
    }
}

/// What artifacts are compiled for. Set explicitly, so that nothing is inferred from the compiling machine.
pub const TARGET: &str = if cfg!(target_arch = "aarch64") {
    if cfg!(target_os = "macos") { "aarch64-apple-darwin" } else { "aarch64-unknown-linux-gnu" }
} else if cfg!(target_os = "macos") {
    "x86_64-apple-darwin"
} else {
    "x86_64-unknown-linux-gnu"
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("artifacts are made for x86_64 and aarch64 only");

/// The CPU features that every machine of a fleet has: x86-64-v2 (all servers since 2010), or plain ARMv8.0.
pub const CPU_FEATURES: &[&str] = if cfg!(target_arch = "x86_64") {
    &["has_sse3", "has_ssse3", "has_sse41", "has_sse42", "has_popcnt", "has_cmpxchg16b"]
} else {
    &[]
};

/// Reservation of address space for each memory: all that 32 bits reach, so that no access is checked against a bound.
pub const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;
/// Guard behind each reservation: what a static offset may add to a 32-bit address without a check.
pub const MEMORY_GUARD_BYTES: u64 = 32 << 20;
/// Memory images up to this size are mapped whole even when they are sparse: Python's has 16 to 64 MiB.
pub const DENSE_IMAGE_BYTES: u64 = 64 << 20;
/// Stack of a call: what the guest may use, and the same again for host functions below it.
pub const WASM_STACK_BYTES: usize = 512 << 10;
/// See [`WASM_STACK_BYTES`].
pub const ASYNC_STACK_BYTES: usize = 1 << 20;
/// Frames of a trap's backtrace that go to the function's log.
const BACKTRACE_FRAMES: usize = 20;

/// Proposals that are on: what the toolchains of our guests emit. All others are off, whatever Cargo features say.
const PROPOSALS: &[WasmFeatures] = &[
    WasmFeatures::MUTABLE_GLOBAL,
    WasmFeatures::SATURATING_FLOAT_TO_INT,
    WasmFeatures::SIGN_EXTENSION,
    WasmFeatures::REFERENCE_TYPES,
    WasmFeatures::CALL_INDIRECT_OVERLONG,
    WasmFeatures::MULTI_VALUE,
    WasmFeatures::BULK_MEMORY,
    WasmFeatures::BULK_MEMORY_OPT,
    WasmFeatures::SIMD,
    WasmFeatures::RELAXED_SIMD,
    WasmFeatures::TAIL_CALL,
    WasmFeatures::FLOATS,
    WasmFeatures::MULTI_MEMORY,
    WasmFeatures::EXTENDED_CONST,
    WasmFeatures::COMPONENT_MODEL,
];

/// Every proposal that is on, for whoever validates components before compiling them.
pub fn proposals() -> WasmFeatures {
    PROPOSALS.iter().copied().fold(WasmFeatures::empty(), WasmFeatures::union)
}

/// Sets all that compiler and host share. The compiler is off: [`compiler_config`] turns it on.
///
/// # Errors
/// When wasmtime does not know [`TARGET`].
pub fn shared(config: &mut Config) -> Result<()> {
    #[cfg(feature = "compiler")]
    config.enable_compiler(false);
    config
        .target(TARGET)?
        .wasm_features(WasmFeatures::all(), false)
        .wasm_features(proposals(), true)
        .wasm_branch_hinting(false)
        .relaxed_simd_deterministic(false)
        // The budget of a call and the fairness between calls both hang on it.
        .epoch_interruption(true)
        .consume_fuel(false)
        // Costs every store a task table; only WASI 0.3 needs it.
        .concurrency_support(false)
        .signals_based_traps(true)
        .memory_reservation(MEMORY_RESERVATION_BYTES)
        .memory_guard_size(MEMORY_GUARD_BYTES)
        .guard_before_linear_memory(true)
        .memory_may_move(true)
        // Without copy-on-write images a large guest costs milliseconds an instance.
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(DENSE_IMAGE_BYTES)
        .table_lazy_init(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(ASYNC_STACK_BYTES)
        // Names of functions in a trap are enough; addresses and DWARF would double many artifacts, and unwind tables
        // would have to be registered at each load.
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .generate_address_map(false)
        .debug_info(false)
        .debug_symbols(false)
        .native_unwind_info(false);
    Ok(())
}

/// A configuration to load and run artifacts with. A host adds its allocator.
///
/// # Errors
/// See [`shared`].
pub fn runtime_config() -> Result<Config> {
    let mut config = Config::new();
    shared(&mut config)?;
    Ok(config)
}

/// A configuration to compile with. A builder adds its cache.
///
/// # Errors
/// See [`shared`].
#[cfg(feature = "compiler")]
pub fn compiler_config() -> Result<Config> {
    let mut config = runtime_config()?;
    config.enable_compiler(true).strategy(wasmtime::Strategy::Cranelift).cranelift_opt_level(wasmtime::OptLevel::Speed);
    for feature in CPU_FEATURES {
        // Safe: the target is set, so Cranelift checks the names, and hosts check the features at load.
        #[expect(unsafe_code, reason = "a CPU feature that a host lacks makes it refuse the artifact, not run it")]
        unsafe {
            config.cranelift_flag_enable(feature);
        }
    }
    Ok(config)
}

/// The version of wasmtime, which it does not tell at run time; a test compares it with the lock file.
pub const WASMTIME_VERSION: &str = "48.0.8";

/// The digest of the engine: of wasmtime's version and of all that changes the code. The same with and without a compiler
/// inside; any drift gives another one.
pub fn digest() -> Digest {
    static DIGEST: OnceLock<Digest> = OnceLock::new();
    *DIGEST.get_or_init(|| {
        let engine = runtime_config()
            .and_then(|config| Engine::new(&config))
            .expect("the configuration is a constant, and tests make engines of it");
        Digest::of(describe(&engine).as_bytes())
    })
}

/// All that changes the code, as text. wasmtime's own `precompile_compatibility_hash` is only there with a compiler
/// inside, so this reads the settings that it hashes one by one.
fn describe(engine: &Engine) -> String {
    let mut text = String::new();
    let mut say = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{name}={value}");
    };
    say("sless engine", &1);
    say("wasmtime", &WASMTIME_VERSION);
    say("variant", &Variant::Wasi02.name());
    say("target", &TARGET);
    say("cpu", &CPU_FEATURES.join(","));
    say("opt-level", &"speed");
    say("proposals", &engine.get_wasm_features().bits());
    say("memory-reservation", &engine.get_memory_reservation());
    say("memory-guard", &engine.get_memory_guard_size());
    say("memory-may-move", &engine.get_memory_may_move());
    say("guard-before", &engine.get_guard_before_linear_memory());
    say("memory-init-cow", &engine.get_memory_init_cow());
    say("dense-image", &engine.get_memory_guaranteed_dense_image_size());
    say("table-lazy-init", &engine.get_table_lazy_init());
    say("signals-based-traps", &engine.get_signals_based_traps());
    say("epoch-interruption", &engine.get_epoch_interruption());
    say("consume-fuel", &engine.get_consume_fuel());
    say("concurrency-support", &engine.get_concurrency_support());
    say("relaxed-simd-deterministic", &engine.get_relaxed_simd_deterministic());
    say("branch-hinting", &engine.get_wasm_branch_hinting());
    say("guest-debug", &engine.get_guest_debug());
    say("debug-info", &engine.get_debug_info());
    say("debug-symbols", &engine.get_debug_symbols());
    say("address-map", &engine.get_generate_address_map());
    say("inlining", &format_args!("{:?}", engine.get_compiler_inlining()));
    say(
        "gc-heap",
        &format_args!(
            "{},{},{}",
            engine.get_gc_heap_reservation(),
            engine.get_gc_heap_guard_size(),
            engine.get_gc_heap_may_move()
        ),
    );
    say("max-wasm-stack", &engine.get_max_wasm_stack());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_proposal_is_decided_here_and_not_by_cargo_features() {
        let engine = Engine::new(&runtime_config().unwrap()).unwrap();
        assert_eq!(engine.get_wasm_features(), proposals());
        for off in [WasmFeatures::THREADS, WasmFeatures::MEMORY64, WasmFeatures::GC, WasmFeatures::CM_ASYNC] {
            assert!(!proposals().intersects(off), "{off:?}");
        }
        assert!(engine.get_epoch_interruption() && engine.get_memory_init_cow() && !engine.get_concurrency_support());
        assert_eq!(engine.get_memory_reservation(), 4 << 30);
    }

    #[test]
    fn any_drift_gives_another_digest() {
        assert_eq!(digest(), digest());
        let of = |change: &dyn Fn(&mut Config)| {
            let mut config = runtime_config().unwrap();
            change(&mut config);
            Digest::of(describe(&Engine::new(&config).unwrap()).as_bytes())
        };
        assert_eq!(of(&|_| {}), digest());
        let drifts: [&dyn Fn(&mut Config); 5] = [
            &|c| {
                c.memory_guard_size(64 << 20);
            },
            &|c| {
                c.wasm_features(WasmFeatures::TAIL_CALL, false);
            },
            &|c| {
                c.epoch_interruption(false);
            },
            &|c| {
                c.memory_init_cow(false);
            },
            &|c| {
                c.relaxed_simd_deterministic(true);
            },
        ];
        for (index, drift) in drifts.iter().enumerate() {
            assert_ne!(of(drift), digest(), "drift {index}");
        }
    }

    #[test]
    fn the_version_is_the_one_of_the_lock_file() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap();
        let entry = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"\n");
        assert!(lock.contains(&entry), "set WASMTIME_VERSION to what Cargo.lock has");
    }

    /// What the compiler makes, an engine without a compiler loads; and it refuses what another configuration made.
    #[cfg(feature = "compiler")]
    #[test]
    fn what_the_compiler_makes_the_runtime_loads() {
        use wasmtime::component::Component;

        let compiler = Engine::new(&compiler_config().unwrap()).unwrap();
        let runtime = Engine::new(&runtime_config().unwrap()).unwrap();
        assert!(Component::new(&runtime, "\0asm\x0d\0\x01\0").is_err(), "the runtime has a compiler inside");
        let component = b"\0asm\x0d\0\x01\0";
        assert_eq!(Digest::of(describe(&compiler).as_bytes()), digest(), "compiler and runtime differ");
        let artifact = compiler.precompile_component(component).unwrap();
        #[expect(unsafe_code, reason = "made by the line above")]
        unsafe { Component::deserialize(&runtime, &artifact) }.unwrap();

        let mut drifted = compiler_config().unwrap();
        drifted.memory_guard_size(64 << 20);
        let foreign = Engine::new(&drifted).unwrap().precompile_component(component).unwrap();
        #[expect(unsafe_code, reason = "made by the line above")]
        let refused = unsafe { Component::deserialize(&runtime, &foreign) };
        assert!(refused.is_err());
    }
}
