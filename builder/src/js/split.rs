//! Takes the engine's code out of a snapshot.
//!
//! Between two snapshots of one engine only memory and the adapter's globals differ. So the main module becomes one that
//! imports its memory ([`Split::module`]), the same for all; and a snapshot becomes a component that imports that module
//! and defines the memory in a module of its own, the image ([`Split::function`]). All indices are settled once, in a
//! template; a function's modules are then put into their places.

mod renumber;

use std::collections::BTreeMap;
use std::ops::Range;

use renumber::Renumber;
use sless_core::Digest;
use wasm_encoder::reencode::{Reencode as _, ReencodeComponent as _, RoundtripReencoder};
use wasm_encoder::{
    Component, ComponentImportSection, ComponentTypeRef, CoreTypeSection, DataSection, EntityType, ExportKind,
    ExportSection, ImportSection, InstanceSection, MemorySection, MemoryType, Module, ModuleType, RawSection,
};
use wasmparser::{BinaryReader, ExternalKind, Parser, Payload, SectionLimited, TypeRef};

/// Names under which the module imports its memory.
const IMAGE: (&str, &str) = ("image", "memory");
/// The exports for the builder, which a finished function does not have.
const BUILD_EXPORTS: [&str; 2] = ["prepare", "init"];

/// Why a component can't be split. All are faults of the platform: it makes these components itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not parse.
    #[error("parse the engine's component")]
    Parse(#[from] wasmparser::BinaryReaderError),
    /// It does not have the shape that the component linker gives.
    #[error("the engine's component is not as expected: {0}")]
    Shape(&'static str),
    /// Its indices could not be rewritten.
    #[error("rewrite the engine's component: {0}")]
    Rewrite(String),
    /// The snapshot is of another engine, or something besides memory has changed.
    #[error("the snapshot's code differs from the engine's")]
    OtherEngine,
}

type Reencoded<T> = Result<T, wasm_encoder::reencode::Error<std::convert::Infallible>>;

impl From<wasm_encoder::reencode::Error<std::convert::Infallible>> for Error {
    fn from(error: wasm_encoder::reencode::Error<std::convert::Infallible>) -> Self {
        Self::Rewrite(error.to_string())
    }
}

/// A piece of the template.
#[derive(Debug, Clone)]
enum Piece {
    /// As it is in every function.
    Same(Vec<u8>),
    /// The snapshot's core module of that number.
    Module(usize),
    /// The image.
    Image,
}

/// An engine taken apart.
#[derive(Debug, Clone)]
pub(super) struct Split {
    template: Vec<Piece>,
    /// The engine's module, which imports its memory.
    pub module: Vec<u8>,
    /// Its digest, and the name of the import.
    pub digest: Digest,
    code: Digest,
}

impl Split {
    /// Takes the prepared engine apart.
    pub(super) fn new(base: &[u8]) -> Result<Self, Error> {
        let sections = sections(base)?;
        let modules: Vec<&[u8]> = modules(base, &sections).collect();
        let main = Main::parse(modules.first().ok_or(Error::Shape("it has no module"))?)?;
        let module = main.importing()?;
        let digest = Digest::of(&module);
        let template = template(base, &sections, &main, digest)?;
        Ok(Self { template, module, digest, code: main.code() })
    }

    /// A function: its snapshot without the engine's code.
    pub(super) fn function(&self, snapshot: &[u8]) -> Result<Vec<u8>, Error> {
        let sections = sections(snapshot)?;
        let modules: Vec<&[u8]> = modules(snapshot, &sections).collect();
        let main = Main::parse(modules.first().ok_or(Error::Shape("it has no module"))?)?;
        if main.code() != self.code {
            return Err(Error::OtherEngine);
        }
        let mut component = Component::HEADER.to_vec();
        for piece in &self.template {
            let module = match piece {
                Piece::Same(bytes) => {
                    component.extend_from_slice(bytes);
                    continue;
                }
                Piece::Module(index) => (*modules.get(*index).ok_or(Error::OtherEngine)?).to_vec(),
                Piece::Image => main.image(),
            };
            wasm_encoder::ComponentSection::append_to_component(
                &RawSection { id: wasm_encoder::ComponentSectionId::CoreModule as u8, data: &module },
                &mut component,
            );
        }
        Ok(component)
    }
}

/// A top-level section: its id and where its content is.
type Section = (u8, Range<usize>);

fn sections(component: &[u8]) -> Result<Vec<Section>, Error> {
    let mut sections = Vec::new();
    // Sections of nested modules and components come between; they lie within the range of the one before.
    let mut end = 0;
    for payload in Parser::new(0).parse_all(component) {
        if let Some((id, range)) = payload?.as_section()
            && range.start >= end
        {
            end = range.end;
            sections.push((id, range));
        }
    }
    Ok(sections)
}

const CORE_MODULE: u8 = wasm_encoder::ComponentSectionId::CoreModule as u8;

fn modules<'a>(component: &'a [u8], sections: &[Section]) -> impl Iterator<Item = &'a [u8]> {
    sections.iter().filter(|(id, _)| *id == CORE_MODULE).map(|(_, range)| &component[range.clone()])
}

/// The main module of a component, by its sections.
struct Main<'a> {
    bytes: &'a [u8],
    sections: Vec<Section>,
    memory: MemoryType,
}

impl<'a> Main<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (mut sections, mut memory) = (Vec::new(), None);
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            if let Payload::MemorySection(reader) = &payload {
                for declared in reader.clone() {
                    let declared =
                        RoundtripReencoder.memory_type(declared?).map_err(|e| Error::Rewrite(e.to_string()))?;
                    if memory.replace(declared).is_some() {
                        return Err(Error::Shape("its main module has two memories"));
                    }
                }
            }
            if let Some((id, range)) = payload.as_section() {
                sections.push((id, range));
            }
        }
        Ok(Self { bytes, sections, memory: memory.ok_or(Error::Shape("its main module has no memory"))? })
    }

    fn content(&self, id: wasm_encoder::SectionId) -> &'a [u8] {
        let section = self.sections.iter().find(|(known, _)| *known == id as u8);
        section.map_or(&[], |(_, range)| &self.bytes[range.clone()])
    }

    /// All but memory.
    fn others(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        use wasm_encoder::SectionId::{Data, DataCount, Memory};
        let memory = [Memory as u8, Data as u8, DataCount as u8];
        let (bytes, sections) = (self.bytes, self.sections.clone());
        sections.into_iter().filter(move |(id, _)| !memory.contains(id)).map(move |(id, range)| (id, &bytes[range]))
    }

    /// Digest of all but memory.
    fn code(&self) -> Digest {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for (id, content) in self.others() {
            bytes.push(id);
            bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend_from_slice(content);
        }
        Digest::of(&bytes)
    }

    /// The module with its memory imported. Any snapshot's is at least as large as the prepared engine's.
    fn importing(&self) -> Result<Vec<u8>, Error> {
        let mut module = Module::new();
        for (id, content) in self.others() {
            if id == wasm_encoder::SectionId::Import as u8 {
                let mut imports = ImportSection::new();
                RoundtripReencoder
                    .parse_import_section(&mut imports, SectionLimited::new(BinaryReader::new(content, 0))?)?;
                imports.import(IMAGE.0, IMAGE.1, self.memory);
                module.section(&imports);
            } else {
                module.section(&RawSection { id, data: content });
            }
        }
        Ok(module.finish())
    }

    /// A module that only has the memory.
    fn image(&self) -> Vec<u8> {
        let mut module = Module::new();
        let mut memories = MemorySection::new();
        memories.memory(self.memory);
        let mut exports = ExportSection::new();
        exports.export(IMAGE.1, ExportKind::Memory, 0);
        module.section(&memories).section(&exports);
        let data = self.content(wasm_encoder::SectionId::Data);
        if data.is_empty() {
            module.section(&DataSection::new());
        } else {
            module.section(&RawSection { id: wasm_encoder::SectionId::Data as u8, data });
        }
        module.finish()
    }

    /// The type of the importing module.
    fn module_type(&self) -> Result<ModuleType, Error> {
        let mut types = Vec::new();
        let (mut imports, mut functions, mut exports) = (Vec::new(), Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(self.bytes) {
            match payload? {
                Payload::TypeSection(section) => {
                    for function in section.into_iter_err_on_gc_types() {
                        types.push(function?);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        let TypeRef::Func(index) = import.ty else {
                            return Err(Error::Shape("its main module imports other things than functions"));
                        };
                        functions.push(index);
                        imports.push((import.module, import.name, index));
                    }
                }
                Payload::FunctionSection(section) => {
                    for index in section {
                        functions.push(index?);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        match export.kind {
                            ExternalKind::Func => exports.push((export.name, Some(export.index))),
                            ExternalKind::Memory => exports.push((export.name, None)),
                            _ => return Err(Error::Shape("its main module exports other things than functions")),
                        }
                    }
                }
                _ => {}
            }
        }
        let mut module = ModuleType::new();
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        let mut declare = |module: &mut ModuleType, index: u32| -> Result<u32, Error> {
            if let Some(declared) = known.get(&index) {
                return Ok(*declared);
            }
            let function = types.get(index as usize).ok_or(Error::Shape("a function has no type"))?;
            let value = |kind: &wasmparser::ValType| {
                RoundtripReencoder.val_type(*kind).map_err(|e| Error::Rewrite(e.to_string()))
            };
            let parameters = function.params().iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let results = function.results().iter().map(value).collect::<Result<Vec<_>, _>>()?;
            module.ty().function(parameters, results);
            let declared = known.len() as u32;
            known.insert(index, declared);
            Ok(declared)
        };
        for (from, name, index) in imports {
            let declared = declare(&mut module, index)?;
            module.import(from, name, EntityType::Function(declared));
        }
        module.import(IMAGE.0, IMAGE.1, EntityType::Memory(self.memory));
        for (name, function) in exports {
            let entity = match function {
                None => EntityType::Memory(self.memory),
                Some(index) => {
                    let of = functions.get(index as usize).ok_or(Error::Shape("an export has no function"))?;
                    EntityType::Function(declare(&mut module, *of)?)
                }
            };
            module.export(name, entity);
        }
        Ok(module)
    }
}

/// Lays out a function: every section of the engine, renumbered.
fn template(base: &[u8], sections: &[Section], main: &Main<'_>, digest: Digest) -> Result<Vec<Piece>, Error> {
    use wasm_encoder::ComponentSectionId as Id;
    let modules = sections.iter().filter(|(id, _)| *id == CORE_MODULE).count();
    let mut renumber = Renumber::new(modules as u32);
    let mut pieces = Vec::new();
    let mut same = Component::new();
    let mut module = 0;
    let flush = |same: &mut Component, pieces: &mut Vec<Piece>| {
        let bytes = std::mem::take(same).finish();
        pieces.push(Piece::Same(bytes[Component::HEADER.len()..].to_vec()));
    };
    for (id, range) in sections {
        let content = &base[range.clone()];
        let reader = || BinaryReader::new(content, 0);
        match *id {
            // Names and producers: the numbers in them would be wrong.
            0 => {}
            CORE_MODULE => {
                if module == 0 {
                    let mut types = CoreTypeSection::new();
                    types.ty().module(&main.module_type()?);
                    let mut imports = ComponentImportSection::new();
                    let name = format!("{}{digest}", sless_core::artifact::MODULE_IMPORT_PREFIX);
                    imports.import(&*name, ComponentTypeRef::Module(0));
                    same.section(&types).section(&imports);
                } else {
                    flush(&mut same, &mut pieces);
                    pieces.push(Piece::Module(module));
                }
                module += 1;
                if module == modules {
                    flush(&mut same, &mut pieces);
                    pieces.push(Piece::Image);
                }
            }
            id if id == Id::CoreType as u8 => return Err(Error::Shape("it has core types")),
            id if id == Id::CoreInstance as u8 => {
                let mut instances = InstanceSection::new();
                renumber.parse_instance_section(&mut instances, SectionLimited::new(reader())?)?;
                same.section(&instances);
            }
            id if id == Id::Alias as u8 => {
                let mut aliases = wasm_encoder::ComponentAliasSection::new();
                renumber.parse_component_alias_section(&mut aliases, SectionLimited::new(reader())?)?;
                same.section(&aliases);
            }
            id if id == Id::CanonicalFunction as u8 => {
                let mut functions = wasm_encoder::CanonicalFunctionSection::new();
                renumber.parse_component_canonical_section(&mut functions, SectionLimited::new(reader())?)?;
                same.section(&functions);
            }
            id if id == Id::Instance as u8 => {
                let mut instances = wasm_encoder::ComponentInstanceSection::new();
                renumber.parse_component_instance_section(&mut instances, SectionLimited::new(reader())?)?;
                same.section(&instances);
            }
            id if id == Id::Import as u8 => {
                let mut imports = ComponentImportSection::new();
                renumber.parse_component_import_section(&mut imports, SectionLimited::new(reader())?)?;
                same.section(&imports);
            }
            id if id == Id::Export as u8 => {
                let mut exports = wasm_encoder::ComponentExportSection::new();
                renumber.parse_component_export_section(&mut exports, SectionLimited::new(reader())?)?;
                same.section(&exports);
            }
            id => {
                same.section(&RawSection { id, data: content });
            }
        }
    }
    if renumber.image.is_none() {
        return Err(Error::Shape("its main module is not instantiated"));
    }
    flush(&mut same, &mut pieces);
    Ok(pieces)
}
