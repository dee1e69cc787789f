//! A component of the component linker, read: its core modules, how they are joined, and where each item comes from.

use std::collections::HashMap;
use std::ops::Range;

use wasmparser::{
    BinaryReader, CanonicalFunction, ComponentAlias, ConstExpr, Element, ExternalKind, FuncType, FunctionBody,
    GlobalType, Instance, MemoryType, Parser, Payload, SectionLimited, TableType, TypeRef,
};

use super::link::Error;

/// A top-level section: its id and where its content is.
pub(super) type Section = (u8, Range<usize>);

/// Functions, tables, memories and globals have an index space each; what else there is shares one that nobody asks for.
const KINDS: usize = 5;

fn slot(kind: ExternalKind) -> usize {
    match kind {
        ExternalKind::Func => 0,
        ExternalKind::Table => 1,
        ExternalKind::Memory => 2,
        ExternalKind::Global => 3,
        _ => 4,
    }
}

/// One core module.
#[derive(Default)]
pub(super) struct Core<'a> {
    pub(super) types: Vec<FuncType>,
    imported: [Vec<(&'a str, &'a str)>; KINDS],
    /// The type of every function, imported ones first.
    pub(super) functions: Vec<u32>,
    pub(super) bodies: Vec<FunctionBody<'a>>,
    /// Defined ones.
    pub(super) globals: Vec<(GlobalType, ConstExpr<'a>)>,
    pub(super) tables: Vec<TableType>,
    pub(super) memories: Vec<MemoryType>,
    pub(super) exports: HashMap<&'a str, (ExternalKind, u32)>,
    pub(super) elements: Vec<Element<'a>>,
    /// Active segments: offset and bytes.
    pub(super) data: Vec<(ConstExpr<'a>, &'a [u8])>,
}

impl<'a> Core<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut core = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(section) => {
                    for function in section.into_iter_err_on_gc_types() {
                        core.types.push(function?);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        let kind = match import.ty {
                            TypeRef::Func(index) => {
                                core.functions.push(index);
                                ExternalKind::Func
                            }
                            TypeRef::Global(_) => ExternalKind::Global,
                            TypeRef::Table(_) => ExternalKind::Table,
                            TypeRef::Memory(_) => ExternalKind::Memory,
                            _ => return Err(Error::Shape("a module imports something of an unknown kind")),
                        };
                        core.imported[slot(kind)].push((import.module, import.name));
                    }
                }
                Payload::FunctionSection(section) => {
                    for index in section {
                        core.functions.push(index?);
                    }
                }
                Payload::TableSection(section) => {
                    for table in section {
                        core.tables.push(table?.ty);
                    }
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        core.memories.push(memory?);
                    }
                }
                Payload::GlobalSection(section) => {
                    for global in section {
                        let global = global?;
                        core.globals.push((global.ty, global.init_expr));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        core.exports.insert(export.name, (export.kind, export.index));
                    }
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        core.elements.push(element?);
                    }
                }
                Payload::DataSection(section) => {
                    for segment in section {
                        let segment = segment?;
                        let wasmparser::DataKind::Active { offset_expr, .. } = segment.kind else {
                            return Err(Error::Shape("a module has passive data"));
                        };
                        core.data.push((offset_expr, segment.data));
                    }
                }
                Payload::CodeSectionEntry(body) => core.bodies.push(body),
                Payload::StartSection { .. } => return Err(Error::Shape("a module has a start function")),
                Payload::TagSection(_) => return Err(Error::Shape("a module has tags")),
                _ => {}
            }
        }
        Ok(core)
    }

    /// Imports of a kind, in the order of their index space.
    pub(super) fn imported(&self, kind: ExternalKind) -> &[(&'a str, &'a str)] {
        &self.imported[slot(kind)]
    }

    /// How many of a function, table, memory or global are imported.
    pub(super) fn imported_count(&self, kind: ExternalKind) -> u32 {
        self.imported(kind).len() as u32
    }
}

/// A core instance.
pub(super) enum CoreInstance<'a> {
    /// Of a module, with instances by name.
    Made { module: u32, arguments: HashMap<&'a str, u32> },
    /// Of items: kind and number in the component.
    Bag(HashMap<&'a str, (ExternalKind, u32)>),
}

/// Where a core item of the component comes from.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// A canonical function: what the outside gives.
    Canonical,
    Export {
        instance: u32,
        name: &'a str,
    },
}

/// What an item is in the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    /// The component's core function of that number: a canonical function, or one of a module that stays.
    Outside(u32),
    /// What a module defines, by its number there.
    Inside { module: u32, index: u32 },
}

/// A component taken apart.
pub(super) struct Parts<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) sections: Vec<Section>,
    /// Where each module lies, and what it is.
    pub(super) modules: Vec<(Range<usize>, Core<'a>)>,
    pub(super) instances: Vec<CoreInstance<'a>>,
    spaces: [Vec<Origin<'a>>; KINDS],
    /// The module of trampolines that is filled in last, and the one that fills it.
    pub(super) stay: [u32; 2],
}

impl<'a> Parts<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let sections = sections(bytes)?;
        let mut parts = Self {
            bytes,
            sections,
            modules: Vec::new(),
            instances: Vec::new(),
            spaces: Default::default(),
            stay: [0; 2],
        };
        for (id, range) in parts.sections.clone() {
            parts.section(id, range)?;
        }
        let find = |what: &dyn Fn(&Core<'a>) -> bool, missing| {
            let index = parts.modules.iter().position(|(_, core)| what(core));
            index.map(|index| index as u32).ok_or(Error::Shape(missing))
        };
        let shim = find(&|core| core.exports.contains_key("$imports"), "it has no module of trampolines")?;
        let fixup = find(
            &|core| core.imported(ExternalKind::Table).iter().any(|(_, name)| *name == "$imports"),
            "nothing fills its module of trampolines",
        )?;
        parts.stay = [shim, fixup];
        Ok(parts)
    }

    fn section(&mut self, id: u8, range: Range<usize>) -> Result<(), Error> {
        use wasm_encoder::ComponentSectionId as Id;
        let content = &self.bytes[range.clone()];
        let reader = BinaryReader::new(content, 0);
        match id {
            id if id == Id::CoreModule as u8 => self.modules.push((range, Core::parse(content)?)),
            id if id == Id::CoreType as u8 => return Err(Error::Shape("it has core types")),
            id if id == Id::CoreInstance as u8 => {
                for instance in SectionLimited::<Instance<'_>>::new(reader)? {
                    self.instances.push(match instance? {
                        Instance::Instantiate { module_index, args } => CoreInstance::Made {
                            module: module_index,
                            arguments: args.iter().map(|argument| (argument.name, argument.index)).collect(),
                        },
                        Instance::FromExports(exports) => CoreInstance::Bag(
                            exports.iter().map(|export| (export.name, (export.kind, export.index))).collect(),
                        ),
                    });
                }
            }
            id if id == Id::Alias as u8 => {
                for alias in SectionLimited::<ComponentAlias<'_>>::new(reader)? {
                    if let ComponentAlias::CoreInstanceExport { kind, instance_index: instance, name } = alias? {
                        self.spaces[slot(kind)].push(Origin::Export { instance, name });
                    }
                }
            }
            id if id == Id::CanonicalFunction as u8 => {
                for function in SectionLimited::<CanonicalFunction>::new(reader)? {
                    if !matches!(function?, CanonicalFunction::Lift { .. }) {
                        self.spaces[slot(ExternalKind::Func)].push(Origin::Canonical);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What the component's core item of that kind and number is.
    pub(super) fn resolve(&self, kind: ExternalKind, number: u32) -> Result<Target, Error> {
        match self.spaces[slot(kind)].get(number as usize).ok_or(Error::Shape("an item is missing"))? {
            Origin::Canonical => Ok(Target::Outside(number)),
            Origin::Export { instance, name } => match &self.instances[*instance as usize] {
                CoreInstance::Made { module, .. } if self.stay.contains(module) => Ok(Target::Outside(number)),
                _ => self.exported(kind, *instance, name),
            },
        }
    }

    fn exported(&self, kind: ExternalKind, instance: u32, name: &str) -> Result<Target, Error> {
        match &self.instances[instance as usize] {
            CoreInstance::Bag(items) => {
                let (_, number) = items.get(name).ok_or(Error::Shape("an instance lacks an item"))?;
                self.resolve(kind, *number)
            }
            CoreInstance::Made { module, .. } => {
                let (_, core) = &self.modules[*module as usize];
                let (_, index) = core.exports.get(name).ok_or(Error::Shape("a module lacks an export"))?;
                self.within(kind, instance, *index)
            }
        }
    }

    /// What the item of that number is in the module of an instance.
    pub(super) fn within(&self, kind: ExternalKind, instance: u32, index: u32) -> Result<Target, Error> {
        let CoreInstance::Made { module, arguments } = &self.instances[instance as usize] else {
            return Err(Error::Shape("an instance has no module"));
        };
        let (_, core) = &self.modules[*module as usize];
        match core.imported(kind).get(index as usize) {
            None => Ok(Target::Inside { module: *module, index }),
            Some((from, name)) => {
                let from = arguments.get(*from).ok_or(Error::Shape("a module lacks an argument"))?;
                self.exported(kind, *from, name)
            }
        }
    }

    /// Instances of modules that are joined, in the order of their making.
    pub(super) fn joined(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.instances.iter().enumerate().filter_map(|(index, instance)| match instance {
            CoreInstance::Made { module, .. } if !self.stay.contains(module) => Some((index as u32, *module)),
            _ => None,
        })
    }
}

/// The top-level sections of a component.
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
