//! The binary `sless`.

/// Invocations allocate and free across threads; mimalloc costs less there than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sless_cli::main()
}
