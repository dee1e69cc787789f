//! The engine as `componentize-py` makes it, taken apart for sharing.
//!
//! It is a component of many core modules that are linked dynamically, with a memory that has Python started in it. All of
//! them but the component linker's trampolines become one module ([`Linked::module`]), which imports its memory and so is
//! the same for all functions. A function is the rest of the component with an import of that module, and its memory in a
//! module of its own, the image ([`Template`]).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sless_core::Digest;
use wasm_encoder::{
    ComponentSection as _, ComponentSectionId as Id, ConstExpr, DataSection, ExportKind, ExportSection, MemorySection,
    MemoryType, Module, RawSection,
};
use wasmparser::{BinaryReader, CanonicalFunction, ExternalKind, SectionLimited};

use super::join;
use super::layout::Layout;
use super::parts::{CoreInstance, Parts, Target};

/// Names under which the module imports its memory.
pub(super) const IMAGE: (&str, &str) = ("image", "memory");
/// And what the component gives it.
pub(super) const HOST: &str = "host";
/// A page of wasm memory.
pub(super) const PAGE_BYTES: usize = 64 << 10;
/// What the image is looked at in: runs of zeros shorter than that stay in its data.
const BLOCK_BYTES: usize = 4 << 10;
/// What a builder reads the memory by.
pub(super) const READ_MEMORY: &str = "read-memory";

/// Why a component can't be taken apart. All are faults of the platform: it makes these components itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not parse.
    #[error("parse the engine's component")]
    Parse(#[from] wasmparser::BinaryReaderError),
    /// It does not have the shape that the component linker gives.
    #[error("the engine's component is not as expected: {0}")]
    Shape(&'static str),
    /// It could not be rewritten.
    #[error("rewrite the engine's component: {0}")]
    Rewrite(String),
}

impl<E: std::fmt::Display> From<wasm_encoder::reencode::Error<E>> for Error {
    fn from(error: wasm_encoder::reencode::Error<E>) -> Self {
        Self::Rewrite(error.to_string())
    }
}

/// A component around its image.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub(super) before: Vec<u8>,
    pub(super) after: Vec<u8>,
}

/// What changes while the engine runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    /// The globals: the exports by which a builder reads them, and the values that a snapshot must find there, since the
    /// module has them.
    pub(super) globals: Vec<(String, i32)>,
    /// Pages of memory, at least and at most.
    pub(super) pages: (u64, Option<u64>),
}

/// An engine taken apart.
pub(super) struct Linked {
    /// The engine's module, which imports its memory.
    pub(super) module: Vec<u8>,
    /// Its digest, and the name of the import.
    pub(super) digest: Digest,
    /// A function.
    pub(super) function: Template,
    /// The engine with Python started and nothing loaded, and what a builder needs: `init`, and functions that read memory
    /// and globals.
    pub(super) builder: Vec<u8>,
    pub(super) shape: Shape,
}

impl Linked {
    /// Takes the engine apart.
    ///
    /// # Errors
    /// When it is not what `componentize-py` makes.
    pub(super) fn new(component: &[u8]) -> Result<Self, Error> {
        let parts = Parts::parse(component)?;
        let wanted = wanted(&parts)?;
        let joined = join::join(&parts, &wanted)?;
        let digest = Digest::of(&joined.module);
        let shape = Shape { globals: joined.globals.clone(), pages: (joined.memory.minimum, joined.memory.maximum) };
        let function = Layout::new(&parts, &joined, digest).emit(false)?;
        let builder = Layout::new(&parts, &joined, digest).emit(true)?.around(&shape, &joined.data);
        Ok(Self { digest, function, builder, shape, module: joined.module })
    }
}

impl Template {
    /// The component whose instances start with that memory.
    pub(super) fn around(&self, shape: &Shape, memory: &[u8]) -> Vec<u8> {
        let image = image(shape, memory);
        let mut component = Vec::with_capacity(self.before.len() + image.len() + self.after.len() + 16);
        component.extend_from_slice(&self.before);
        RawSection { id: Id::CoreModule as u8, data: &image }.append_to_component(&mut component);
        component.extend_from_slice(&self.after);
        component
    }
}

/// A module that only has the memory.
fn image(shape: &Shape, memory: &[u8]) -> Vec<u8> {
    let mut memories = MemorySection::new();
    let (minimum, maximum) = shape.pages;
    let minimum = minimum.max((memory.len() / PAGE_BYTES) as u64);
    memories.memory(MemoryType { minimum, maximum, memory64: false, shared: false, page_size_log2: None });
    let mut exports = ExportSection::new();
    exports.export(IMAGE.1, ExportKind::Memory, 0);
    let mut data = DataSection::new();
    let mut run: Option<usize> = None;
    for (index, block) in memory.chunks(BLOCK_BYTES).enumerate() {
        let start = index * BLOCK_BYTES;
        match (run, block.iter().any(|byte| *byte != 0)) {
            (None, true) => run = Some(start),
            (Some(from), false) => {
                data.active(0, &ConstExpr::i32_const(from as i32), memory[from..start].iter().copied());
                run = None;
            }
            _ => {}
        }
    }
    if let Some(from) = run {
        data.active(0, &ConstExpr::i32_const(from as i32), memory[from..].iter().copied());
    }
    let mut module = Module::new();
    module.section(&memories).section(&exports).section(&data);
    module.finish()
}

/// Functions of joined modules that the rest of the component uses.
fn wanted(parts: &Parts<'_>) -> Result<BTreeSet<Target>, Error> {
    let mut wanted = BTreeSet::new();
    for (id, range) in &parts.sections {
        if *id == Id::CanonicalFunction as u8 {
            let reader = BinaryReader::new(&parts.bytes[range.clone()], 0);
            for function in SectionLimited::<CanonicalFunction>::new(reader)? {
                let (lifted, options) = match function? {
                    CanonicalFunction::Lift { core_func_index, options, .. } => (Some(core_func_index), options),
                    CanonicalFunction::Lower { options, .. } => (None, options),
                    _ => continue,
                };
                let named = options.iter().filter_map(|option| match option {
                    wasmparser::CanonicalOption::Realloc(index) | wasmparser::CanonicalOption::PostReturn(index) => {
                        Some(*index)
                    }
                    _ => None,
                });
                for number in named.chain(lifted) {
                    wanted.insert(parts.resolve(ExternalKind::Func, number)?);
                }
            }
        }
    }
    for bag in fixup_bags(parts) {
        let CoreInstance::Bag(items) = &parts.instances[bag as usize] else { continue };
        for (kind, number) in items.values() {
            if *kind == ExternalKind::Func {
                wanted.insert(parts.resolve(ExternalKind::Func, *number)?);
            }
        }
    }
    wanted.retain(|target| matches!(target, Target::Inside { .. }));
    Ok(wanted)
}

/// The instances that the module which fills the trampolines is given.
pub(super) fn fixup_bags(parts: &Parts<'_>) -> Vec<u32> {
    let of_fixup = |instance: &CoreInstance<'_>| match instance {
        CoreInstance::Made { module, arguments } if *module == parts.stay[1] => {
            Some(arguments.values().copied().collect::<Vec<_>>())
        }
        _ => None,
    };
    parts.instances.iter().find_map(of_fixup).unwrap_or_default()
}
