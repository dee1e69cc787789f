//! A function's component: the engine's, with the one module in place of many, and numbers as they are now.

use std::collections::HashMap;

use sless_core::Digest;
use sless_core::artifact::MODULE_IMPORT_PREFIX;
use wasm_encoder::reencode::{Error as ReencodeError, Reencode, ReencodeComponent};
use wasm_encoder::{
    Alias, CanonicalFunctionSection, CanonicalOption, Component, ComponentAliasSection, ComponentExportKind,
    ComponentExportSection, ComponentImportSection, ComponentSectionId as Id, ComponentTypeRef, ComponentTypeSection,
    ComponentValType, CoreTypeSection, ExportKind, InstanceSection, ModuleArg, PrimitiveValType, RawSection,
};
use wasmparser::{
    BinaryReader, CanonicalFunction, ComponentAlias, ComponentExternalKind, ExternalKind, SectionLimited,
};

use super::join::Joined;
use super::link::{Error, HOST, IMAGE, READ_MEMORY, Template, fixup_bags};
use super::parts::{Parts, Target};
use super::reader::reader;

/// Exports that no function has: the builder's own, and `componentize-py`'s.
const BUILD_EXPORTS: [&str; 2] = ["init", "exports"];
/// Lays the component out anew: every section of the engine, with numbers as they are now.
pub(super) struct Layout<'p, 'a> {
    parts: &'p Parts<'a>,
    joined: &'p Joined,
    digest: Digest,
    builds: bool,
    /// Old number → new, of each core space.
    modules: HashMap<u32, u32>,
    instances: HashMap<u32, u32>,
    functions: HashMap<u32, u32>,
    tables: HashMap<u32, u32>,
    /// The one module's functions.
    inside: HashMap<Target, u32>,
    engine: Option<u32>,
    next_instance: u32,
    next_function: u32,
    next_table: u32,
    /// Numbers so far, as they were.
    old_module: u32,
    old_instance: u32,
    old_function: u32,
    old_table: u32,
    old_component_function: u32,
    old_component_instance: u32,
    types: u32,
    gone_functions: Vec<u32>,
    gone_instances: Vec<u32>,
}

/// Numbers of the modules that every function starts with.
const ENGINE_MODULE: u32 = 0;
const IMAGE_MODULE: u32 = 1;

impl<'p, 'a> Layout<'p, 'a> {
    pub(super) fn new(parts: &'p Parts<'a>, joined: &'p Joined, digest: Digest) -> Self {
        Self {
            parts,
            joined,
            digest,
            builds: false,
            modules: HashMap::new(),
            instances: HashMap::new(),
            functions: HashMap::new(),
            tables: HashMap::new(),
            inside: HashMap::new(),
            engine: None,
            next_instance: 0,
            next_function: 0,
            next_table: 0,
            old_module: 0,
            old_instance: 0,
            old_function: 0,
            old_table: 0,
            old_component_function: 0,
            old_component_instance: 0,
            types: 0,
            gone_functions: Vec::new(),
            gone_instances: Vec::new(),
        }
    }

    /// The component; `builds` for the builder's variant.
    pub(super) fn emit(mut self, builds: bool) -> Result<Template, Error> {
        self.builds = builds;
        let mut before = Component::new();
        let mut types = CoreTypeSection::new();
        types.ty().module(&self.joined.module_type);
        let mut imports = ComponentImportSection::new();
        let name = format!("{}{}", MODULE_IMPORT_PREFIX, self.digest);
        imports.import(&*name, ComponentTypeRef::Module(0));
        before.section(&types).section(&imports);

        let mut after = Component::new();
        let mut modules_made = IMAGE_MODULE + 1;
        for (id, range) in self.parts.sections.clone() {
            let content = &self.parts.bytes[range];
            let reader = BinaryReader::new(content, 0);
            match id {
                // Names and producers: the numbers in them would be wrong.
                0 => {}
                id if id == Id::CoreModule as u8 => {
                    if self.parts.stay.contains(&self.old_module) {
                        after.section(&RawSection { id, data: content });
                        self.modules.insert(self.old_module, modules_made);
                        modules_made += 1;
                    }
                    self.old_module += 1;
                }
                id if id == Id::CoreInstance as u8 => self.core_instances(&mut after, reader)?,
                id if id == Id::Alias as u8 => self.aliases(&mut after, reader)?,
                id if id == Id::CanonicalFunction as u8 => self.canonicals(&mut after, reader)?,
                id if id == Id::Instance as u8 => {
                    let mut instances = wasm_encoder::ComponentInstanceSection::new();
                    for instance in SectionLimited::<wasmparser::ComponentInstance<'_>>::new(reader)? {
                        self.parse_component_instance(&mut instances, instance?)?;
                        self.old_component_instance += 1;
                    }
                    after.section(&instances);
                }
                id if id == Id::Import as u8 => {
                    let mut imports = ComponentImportSection::new();
                    for import in SectionLimited::<wasmparser::ComponentImport<'_>>::new(reader)? {
                        let import = import?;
                        self.count(import.ty.kind());
                        imports.import(import.name, self.component_type_ref(import.ty)?);
                    }
                    after.section(&imports);
                }
                id if id == Id::Export as u8 => self.exports(&mut after, reader)?,
                id => {
                    if id == Id::Type as u8 {
                        self.types += SectionLimited::<wasmparser::ComponentType<'_>>::new(reader)?.count();
                    }
                    after.section(&RawSection { id, data: content });
                }
            }
        }
        if builds {
            self.reader(&mut after, modules_made)?;
        }
        Ok(Template { before: before.finish(), after: after.finish()[Component::HEADER.len()..].to_vec() })
    }

    fn count(&mut self, kind: ComponentExternalKind) {
        match kind {
            ComponentExternalKind::Func => self.old_component_function += 1,
            ComponentExternalKind::Instance => self.old_component_instance += 1,
            ComponentExternalKind::Type => self.types += 1,
            _ => {}
        }
    }

    fn core_instances(&mut self, after: &mut Component, reader: BinaryReader<'_>) -> Result<(), Error> {
        let bags = fixup_bags(self.parts);
        let mut section = InstanceSection::new();
        for instance in SectionLimited::<wasmparser::Instance<'_>>::new(reader)? {
            let instance = instance?;
            let stays = match &instance {
                wasmparser::Instance::Instantiate { module_index, .. } => self.parts.stay.contains(module_index),
                wasmparser::Instance::FromExports(_) => bags.contains(&self.old_instance),
            };
            if stays {
                self.parse_instance(&mut section, instance)?;
                self.instances.insert(self.old_instance, self.next_instance);
                self.next_instance += 1;
            }
            self.old_instance += 1;
        }
        if !section.is_empty() {
            after.section(&section);
        }
        Ok(())
    }

    fn aliases(&mut self, after: &mut Component, reader: BinaryReader<'_>) -> Result<(), Error> {
        let mut section = ComponentAliasSection::new();
        for alias in SectionLimited::<ComponentAlias<'_>>::new(reader)? {
            let alias = alias?;
            match alias {
                ComponentAlias::CoreInstanceExport { kind, instance_index, .. } => {
                    let stays = self.instances.contains_key(&instance_index);
                    match kind {
                        ExternalKind::Func => {
                            if stays {
                                self.functions.insert(self.old_function, self.next_function);
                                self.next_function += 1;
                            }
                            self.old_function += 1;
                        }
                        ExternalKind::Table => {
                            if stays {
                                self.tables.insert(self.old_table, self.next_table);
                                self.next_table += 1;
                            }
                            self.old_table += 1;
                        }
                        _ => {}
                    }
                    if stays {
                        section.alias(self.component_alias(alias)?);
                    }
                }
                ComponentAlias::InstanceExport { kind, .. } => {
                    section.alias(self.component_alias(alias)?);
                    self.count(kind);
                }
                ComponentAlias::Outer { .. } => return Err(Error::Shape("it is nested")),
            }
        }
        if !section.is_empty() {
            after.section(&section);
        }
        Ok(())
    }

    fn canonicals(&mut self, after: &mut Component, reader: BinaryReader<'_>) -> Result<(), Error> {
        let mut section = CanonicalFunctionSection::new();
        for function in SectionLimited::<CanonicalFunction>::new(reader)? {
            let function = function?;
            let needs_engine = match &function {
                CanonicalFunction::Lift { .. } => true,
                CanonicalFunction::Lower { options, .. } => options.iter().any(|option| {
                    matches!(option, wasmparser::CanonicalOption::Memory(_) | wasmparser::CanonicalOption::Realloc(_))
                }),
                _ => false,
            };
            if needs_engine && self.engine.is_none() {
                after.section(&std::mem::take(&mut section));
                self.make_engine(after)?;
            }
            let lifts = matches!(function, CanonicalFunction::Lift { .. });
            self.parse_component_canonical(&mut section, function)?;
            if lifts {
                self.old_component_function += 1;
            } else {
                self.functions.insert(self.old_function, self.next_function);
                self.next_function += 1;
                self.old_function += 1;
            }
        }
        if !section.is_empty() {
            after.section(&section);
        }
        Ok(())
    }

    /// Where the first function needs the memory, all is there that the engine imports.
    fn make_engine(&mut self, after: &mut Component) -> Result<(), Error> {
        let mut host = Vec::new();
        for (place, number) in self.joined.imports.iter().enumerate() {
            let function = self.functions.get(number).ok_or(Error::Shape("the engine is needed before its imports"))?;
            host.push((place.to_string(), ExportKind::Func, *function));
        }
        let mut instances = InstanceSection::new();
        instances.export_items(host.iter().map(|(name, kind, index)| (name.as_str(), *kind, *index)));
        instances.instantiate(IMAGE_MODULE, std::iter::empty::<(&str, ModuleArg)>());
        let (host, image, engine) = (self.next_instance, self.next_instance + 1, self.next_instance + 2);
        let arguments = [(HOST, ModuleArg::Instance(host)), (IMAGE.0, ModuleArg::Instance(image))];
        instances.instantiate(ENGINE_MODULE, arguments);
        self.next_instance += 3;
        self.engine = Some(engine);
        let mut aliases = ComponentAliasSection::new();
        aliases.alias(Alias::CoreInstanceExport { instance: engine, kind: ExportKind::Memory, name: IMAGE.1 });
        for (target, name) in &self.joined.exports {
            aliases.alias(Alias::CoreInstanceExport { instance: engine, kind: ExportKind::Func, name });
            self.inside.insert(*target, self.next_function);
            self.next_function += 1;
        }
        after.section(&instances).section(&aliases);
        Ok(())
    }

    fn exports(&mut self, after: &mut Component, reader: BinaryReader<'_>) -> Result<(), Error> {
        let mut section = ComponentExportSection::new();
        for export in SectionLimited::<wasmparser::ComponentExport<'_>>::new(reader)? {
            let export = export?;
            let kind = export.kind;
            if BUILD_EXPORTS.contains(&export.name.name) && !(self.builds && export.name.name == "init") {
                match kind {
                    ComponentExternalKind::Func => self.gone_functions.push(self.old_component_function),
                    ComponentExternalKind::Instance => self.gone_instances.push(self.old_component_instance),
                    _ => return Err(Error::Shape("an export of the builder is of an unknown kind")),
                }
            } else {
                self.parse_component_export(&mut section, export)?;
            }
            self.count(kind);
        }
        if !section.is_empty() {
            after.section(&section);
        }
        Ok(())
    }

    /// Functions that give a builder the memory and the globals.
    fn reader(&mut self, after: &mut Component, module: u32) -> Result<(), Error> {
        let engine = self.engine.ok_or(Error::Shape("nothing uses the engine"))?;
        after.section(&RawSection { id: Id::CoreModule as u8, data: &reader(self.joined) });
        let mut instances = InstanceSection::new();
        instances.instantiate(module, [("engine", ModuleArg::Instance(engine))]);
        let instance = self.next_instance;
        let (mut types, mut aliases) = (ComponentTypeSection::new(), ComponentAliasSection::new());
        types.ty().defined_type().list(ComponentValType::Primitive(PrimitiveValType::U8));
        let none: [(&str, ComponentValType); 0] = [];
        types.ty().function().params(none).result(Some(ComponentValType::Type(self.types)));
        types.ty().function().params(none).result(Some(ComponentValType::Primitive(PrimitiveValType::S32)));
        let (mut lifts, mut exports) = (CanonicalFunctionSection::new(), ComponentExportSection::new());
        let globals = self.joined.globals.iter().map(|(name, _)| (name.as_str(), self.types + 2));
        let first = self.old_component_function - self.gone_functions.len() as u32;
        // An export makes a number, too.
        for (place, (name, ty)) in std::iter::once((READ_MEMORY, self.types + 1)).chain(globals).enumerate() {
            let place = place as u32;
            aliases.alias(Alias::CoreInstanceExport { instance, kind: ExportKind::Func, name });
            lifts.lift(self.next_function + place, ty, [CanonicalOption::Memory(0)]);
            exports.export(name, ComponentExportKind::Func, first + place, None);
        }
        after.section(&instances).section(&aliases).section(&types).section(&lifts).section(&exports);
        Ok(())
    }
}

impl Reencode for Layout<'_, '_> {
    type Error = Error;

    fn function_index(&mut self, index: u32) -> Result<u32, ReencodeError<Error>> {
        let number = match self.functions.get(&index) {
            Some(number) => Some(*number),
            None => {
                let target = self.parts.resolve(ExternalKind::Func, index);
                self.inside.get(&target.map_err(ReencodeError::UserError)?).copied()
            }
        };
        number.ok_or(ReencodeError::UserError(Error::Shape("a function is used before it is there")))
    }

    fn memory_index(&mut self, _: u32) -> Result<u32, ReencodeError<Error>> {
        Ok(0)
    }

    fn table_index(&mut self, index: u32) -> Result<u32, ReencodeError<Error>> {
        let missing = ReencodeError::UserError(Error::Shape("a table is used from outside"));
        self.tables.get(&index).copied().ok_or(missing)
    }
}

impl ReencodeComponent for Layout<'_, '_> {
    fn module_index(&mut self, index: u32) -> u32 {
        self.modules.get(&index).copied().unwrap_or(u32::MAX)
    }

    fn instance_index(&mut self, index: u32) -> u32 {
        self.instances.get(&index).copied().unwrap_or(u32::MAX)
    }

    fn component_func_index(&mut self, index: u32) -> u32 {
        index - self.gone_functions.iter().filter(|gone| **gone < index).count() as u32
    }

    fn component_instance_index(&mut self, index: u32) -> u32 {
        index - self.gone_instances.iter().filter(|gone| **gone < index).count() as u32
    }
}
