//! How much of everything a component may have.

use super::Rejection;

/// Bounds of a component, so that no compile can explode. All are counted before anything is validated.
///
/// The largest guests that toolchains make (CPython with its extension modules, SpiderMonkey) have about 25,000
/// functions, 20 modules, 300 core instances and a largest function of 200 KB; the defaults leave room above that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of the file.
    pub component_bytes: u64,
    /// Core functions in all modules together.
    pub functions: u64,
    /// Code of one function: what compiling it costs grows faster than its size.
    pub function_bytes: u64,
    /// Core modules.
    pub modules: u64,
    /// Nested components.
    pub components: u64,
    /// Component in component in component.
    pub depth: u64,
    /// Instances of modules and components.
    pub instances: u64,
    /// Memories that modules define. Each can become an image in the artifact.
    pub memories: u64,
    /// Tables that modules define.
    pub tables: u64,
    /// Types of modules and components.
    pub types: u64,
    /// Functions that are lifted and lowered: each becomes code that the component did not bring.
    pub adapters: u64,
    /// Imports and exports of the component itself.
    pub names: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            component_bytes: 64 << 20,
            functions: 200_000,
            function_bytes: 1 << 20,
            modules: 200,
            components: 200,
            depth: 10,
            instances: 2_000,
            memories: 50,
            tables: 200,
            types: 100_000,
            adapters: 20_000,
            names: 1_000,
        }
    }
}

impl Limits {
    /// The defaults with another size of file.
    pub fn with_component_bytes(component_bytes: u64) -> Self {
        Self { component_bytes, ..Self::default() }
    }
}

/// Counts one kind of thing against its limit.
pub(super) fn count(
    counter: &mut u64,
    more: u64,
    limit: u64,
    what: &'static str,
    remedy: &'static str,
) -> Result<(), Rejection> {
    *counter = counter.saturating_add(more);
    if *counter > limit {
        return Err(Rejection::TooMany { what, count: *counter, limit, remedy });
    }
    Ok(())
}
