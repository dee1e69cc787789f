//! One pass over the file: counts every section, then validates it.

use wasmparser::types::Types;
use wasmparser::{
    ComponentTypeRef, Encoding, FuncValidatorAllocations, Parser, Payload, TypeBounds, ValidPayload, Validator,
};

use super::limits::{Limits, count};
use super::{Rejection, invalid};

/// What the pass found.
pub(super) struct Found {
    /// Core functions.
    pub functions: u64,
    /// The component's imports, in order.
    pub imports: Vec<Import>,
    /// Names of the component's exports, in order.
    pub exports: Vec<String>,
    /// Types of all of them.
    pub types: Types,
    /// Bytes of custom sections: names, debug information, producers.
    custom_bytes: u64,
}

/// One import of the component.
pub(super) struct Import {
    /// Its name.
    pub name: String,
    /// Whether it is a resource that only its giver knows.
    pub fresh: bool,
}

impl Found {
    /// What the owner should know.
    pub(super) fn notes(&self, size: u64) -> Vec<String> {
        // Names of functions are worth their bytes in a backtrace; half a file of DWARF is not.
        const WORTH_SAYING: u64 = 1 << 20;
        let mut notes = Vec::new();
        if self.custom_bytes > WORTH_SAYING && self.custom_bytes > size / 2 {
            notes.push(format!(
                "{} of {size} bytes are debug information and other custom sections, which the platform does not use; \
                 `wasm-tools strip` makes uploads faster",
                self.custom_bytes
            ));
        }
        notes
    }
}

#[derive(Default)]
struct Counts {
    functions: u64,
    modules: u64,
    components: u64,
    instances: u64,
    memories: u64,
    tables: u64,
    types: u64,
    adapters: u64,
    names: u64,
    custom_bytes: u64,
}

/// Counts and validates all of it.
pub(super) fn walk(bytes: &[u8], limits: &Limits) -> Result<Found, Rejection> {
    let mut validator = Validator::new_with_features(sless_engine::proposals());
    let mut allocations = FuncValidatorAllocations::default();
    let mut counts = Counts::default();
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut nesting: Vec<Encoding> = Vec::new();
    // Function bodies seen of the module that is being read.
    let mut bodies = 0;
    let mut types = None;

    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| invalid(&error, bytes.len(), ""))?;
        match &payload {
            Payload::Version { encoding, .. } => {
                nesting.push(*encoding);
                bodies = 0;
                let depth = nesting.iter().filter(|e| **e == Encoding::Component).count() as u64;
                count(&mut 0, depth, limits.depth, "levels of nested components", "; compose it flatter")?;
            }
            Payload::CodeSectionEntry(body) => {
                let size = body.range().len() as u64;
                if size > limits.function_bytes {
                    let module = counts.modules.saturating_sub(1);
                    return Err(Rejection::FunctionTooLarge {
                        module,
                        index: bodies,
                        size,
                        limit: limits.function_bytes,
                    });
                }
                bodies += 1;
            }
            Payload::ComponentImportSection(section) if nesting.len() == 1 => {
                counts.name(section.count(), limits)?;
                for import in section.clone() {
                    let import = import.map_err(|error| invalid(&error, bytes.len(), ""))?;
                    let fresh = matches!(import.ty, ComponentTypeRef::Type(TypeBounds::SubResource));
                    imports.push(Import { name: import.name.name.to_owned(), fresh });
                }
            }
            Payload::ComponentExportSection(section) if nesting.len() == 1 => {
                counts.name(section.count(), limits)?;
                for export in section.clone() {
                    exports.push(export.map_err(|error| invalid(&error, bytes.len(), ""))?.name.name.to_owned());
                }
            }
            other => counts.add(other, limits)?,
        }
        let valid =
            validator.payload(&payload).map_err(|error| invalid(&error, bytes.len(), hint(&error, &imports)))?;
        match valid {
            ValidPayload::Ok | ValidPayload::Parser(_) => {}
            ValidPayload::Func(function, body) => {
                let mut function = function.into_validator(allocations);
                function.validate(&body).map_err(|error| invalid(&error, bytes.len(), hint(&error, &imports)))?;
                allocations = function.into_allocations();
            }
            ValidPayload::End(found) => {
                nesting.pop();
                if nesting.is_empty() {
                    types = Some(found);
                }
            }
        }
    }
    let types = types.ok_or_else(|| Rejection::Invalid {
        message: "unexpected end of file".to_owned(),
        offset: bytes.len(),
        size: bytes.len(),
        hint: "",
    })?;
    Ok(Found { functions: counts.functions, imports, exports, types, custom_bytes: counts.custom_bytes })
}

impl Counts {
    fn name(&mut self, more: u32, limits: &Limits) -> Result<(), Rejection> {
        count(&mut self.names, more.into(), limits.names, "imports and exports", "")
    }

    fn add(&mut self, payload: &Payload<'_>, limits: &Limits) -> Result<(), Rejection> {
        match payload {
            Payload::FunctionSection(s) => count(
                &mut self.functions,
                s.count().into(),
                limits.functions,
                "functions",
                "; leave out what is not called (`lto = true`, `wasm-opt -Oz`)",
            ),
            Payload::MemorySection(s) => count(&mut self.memories, s.count().into(), limits.memories, "memories", ""),
            Payload::TableSection(s) => count(&mut self.tables, s.count().into(), limits.tables, "tables", ""),
            Payload::ModuleSection { .. } => count(&mut self.modules, 1, limits.modules, "core modules", ""),
            Payload::ComponentSection { .. } => {
                count(&mut self.components, 1, limits.components, "nested components", "")
            }
            Payload::InstanceSection(s) => {
                count(&mut self.instances, s.count().into(), limits.instances, "instances", "")
            }
            Payload::ComponentInstanceSection(s) => {
                count(&mut self.instances, s.count().into(), limits.instances, "instances", "")
            }
            Payload::TypeSection(s) => count(&mut self.types, s.count().into(), limits.types, "types", ""),
            Payload::CoreTypeSection(s) => count(&mut self.types, s.count().into(), limits.types, "types", ""),
            Payload::ComponentTypeSection(s) => count(&mut self.types, s.count().into(), limits.types, "types", ""),
            Payload::ComponentCanonicalSection(s) => {
                count(&mut self.adapters, s.count().into(), limits.adapters, "lifted and lowered functions", "")
            }
            Payload::CustomSection(s) => {
                self.custom_bytes += s.range().len() as u64;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What the author of an invalid component should change, where its kind is known.
fn hint(error: &wasmparser::BinaryReaderError, imports: &[Import]) -> &'static str {
    let message = error.message();
    if imports.iter().any(|import| import.name.starts_with("wasi:") && import.name.contains("@0.3"))
        || message.contains("async")
    {
        "; it is made for WASI 0.3, which this release does not serve: build it for WASI 0.2 (Rust: `--target wasm32-wasip2`)"
    } else if message.contains("threads") || message.contains("shared memor") || message.contains("atomic") {
        "; threads are off: build it without them"
    } else if message.contains("not enabled") || message.contains("support is not") {
        "; build it without that WebAssembly proposal"
    } else {
        ""
    }
}
