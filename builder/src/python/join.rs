//! Many core modules that share a memory and a table become one.
//!
//! The dynamic linking that they were made for costs at every start (an instance and an import table each, a function table
//! filled entry by entry) and at every call (addresses looked up in globals). Here what is known is settled once: calls
//! between modules are direct, addresses are constants, the function table is the module's own so that it is filled on
//! demand, and functions that nobody calls are gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wasm_encoder::reencode::{Error as ReencodeError, Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection, FunctionSection,
    GlobalSection, ImportSection, Instruction, MemoryType, Module, ModuleType, TableSection,
};
use wasmparser::{ElementItems, ElementKind, ExternalKind, Operator};

use super::link::{Error, HOST, IMAGE};
use super::parts::{Parts, Target};
use super::types::{Types, values};

/// The one module.
pub(super) struct Joined {
    pub(super) module: Vec<u8>,
    pub(super) module_type: ModuleType,
    pub(super) memory: MemoryType,
    /// Core functions of the component that it imports from [`HOST`], under their place here.
    pub(super) imports: Vec<u32>,
    /// Functions that it exports, and under which name.
    pub(super) exports: BTreeMap<Target, String>,
    /// Names of its globals that change, with their values.
    pub(super) globals: Vec<(String, i32)>,
    /// The memory's bytes, as its modules' data have them.
    pub(super) data: Vec<u8>,
}

/// What is known of every joined module, by its number.
struct Plan<'p, 'a> {
    parts: &'p Parts<'a>,
    /// Module → its instance.
    instances: HashMap<u32, u32>,
    live: BTreeSet<(u32, u32)>,
    /// Globals that no live function sets, and their value.
    constants: HashMap<(u32, u32), i32>,
    outside: BTreeMap<u32, u32>,
    functions: HashMap<(u32, u32), u32>,
    globals: BTreeMap<(u32, u32), u32>,
}

/// Joins all modules but those that stay. `wanted` are functions that are needed from outside.
pub(super) fn join(parts: &Parts<'_>, wanted: &BTreeSet<Target>) -> Result<Joined, Error> {
    let order: Vec<(u32, u32)> = parts.joined().collect();
    let mut instances = HashMap::new();
    for (instance, module) in &order {
        if instances.insert(*module, *instance).is_some() {
            return Err(Error::Shape("a module has two instances"));
        }
    }
    let mut plan = Plan {
        parts,
        instances,
        live: BTreeSet::new(),
        constants: HashMap::new(),
        outside: BTreeMap::new(),
        functions: HashMap::new(),
        globals: BTreeMap::new(),
    };
    let set = plan.find_live(&order, wanted)?;
    plan.find_constants(&order, &set)?;
    plan.emit(&order, wanted)
}

impl<'a> Plan<'_, 'a> {
    fn core(&self, module: u32) -> &super::parts::Core<'a> {
        &self.parts.modules[module as usize].1
    }

    fn target(&self, kind: ExternalKind, module: u32, index: u32) -> Result<Target, Error> {
        let instance = self.instances.get(&module).ok_or(Error::Shape("a module is not instantiated"))?;
        self.parts.within(kind, *instance, index)
    }

    /// Follows calls from what is needed. Gives the globals that are set on the way.
    fn find_live(&mut self, order: &[(u32, u32)], wanted: &BTreeSet<Target>) -> Result<BTreeSet<(u32, u32)>, Error> {
        let mut open: Vec<Target> = wanted.iter().copied().collect();
        let mut outside = BTreeSet::new();
        let mut set = BTreeSet::new();
        for (_, module) in order {
            for element in &self.core(*module).elements {
                for function in functions_of(element)? {
                    open.push(self.target(ExternalKind::Func, *module, function)?);
                }
            }
        }
        while let Some(target) = open.pop() {
            let (module, index) = match target {
                Target::Outside(number) => {
                    outside.insert(number);
                    continue;
                }
                Target::Inside { module, index } => (module, index),
            };
            if !self.live.insert((module, index)) {
                continue;
            }
            let core = self.core(module);
            let body = core.bodies.get((index - core.imported_count(ExternalKind::Func)) as usize);
            for operator in body.ok_or(Error::Shape("a function has no body"))?.get_operators_reader()? {
                match operator? {
                    Operator::Call { function_index }
                    | Operator::ReturnCall { function_index }
                    | Operator::RefFunc { function_index } => {
                        open.push(self.target(ExternalKind::Func, module, function_index)?);
                    }
                    Operator::GlobalSet { global_index } => {
                        if let Target::Inside { module, index } =
                            self.target(ExternalKind::Global, module, global_index)?
                        {
                            set.insert((module, index));
                        }
                    }
                    _ => {}
                }
            }
        }
        self.outside = outside.into_iter().zip(0..).collect();
        Ok(set)
    }

    /// Settles the globals: those that are set stay, all others are numbers.
    fn find_constants(&mut self, order: &[(u32, u32)], set: &BTreeSet<(u32, u32)>) -> Result<(), Error> {
        for (_, module) in order {
            let core = self.core(*module);
            let imported = core.imported_count(ExternalKind::Global);
            let globals: Vec<_> = core.globals.iter().map(|(ty, init)| (*ty, init.clone())).collect();
            for ((ty, init), index) in globals.into_iter().zip(imported..) {
                if ty.content_type != wasmparser::ValType::I32 {
                    return Err(Error::Shape("a global is no i32"));
                }
                let value = self.value(*module, &init)?;
                self.constants.insert((*module, index), value);
            }
        }
        self.globals = set.iter().copied().zip(0..).collect();
        Ok(())
    }

    /// The value of a constant expression.
    fn value(&self, module: u32, expression: &wasmparser::ConstExpr<'_>) -> Result<i32, Error> {
        let mut stack: Vec<i32> = Vec::new();
        let unknown = || Error::Shape("a constant expression is of an unknown kind");
        for operator in expression.get_operators_reader() {
            let value = match operator? {
                Operator::I32Const { value } => value,
                Operator::GlobalGet { global_index } => {
                    match self.target(ExternalKind::Global, module, global_index)? {
                        Target::Inside { module, index } => {
                            *self.constants.get(&(module, index)).ok_or_else(unknown)?
                        }
                        Target::Outside(_) => return Err(unknown()),
                    }
                }
                Operator::I32Add => match (stack.pop(), stack.pop()) {
                    (Some(a), Some(b)) => a.wrapping_add(b),
                    _ => return Err(unknown()),
                },
                Operator::End => break,
                _ => return Err(unknown()),
            };
            stack.push(value);
            if stack.len() > 8 {
                return Err(Error::Shape("a constant expression is too long"));
            }
        }
        stack.pop().ok_or(Error::Shape("a constant expression is empty"))
    }

    fn emit(&mut self, order: &[(u32, u32)], wanted: &BTreeSet<Target>) -> Result<Joined, Error> {
        let mut types = Types::default();
        // The type of what the outside gives is what those who import it say.
        let mut outside_types: BTreeMap<u32, u32> = BTreeMap::new();
        for (_, module) in order {
            let core = self.core(*module);
            for index in 0..core.imported_count(ExternalKind::Func) {
                if let Target::Outside(number) = self.target(ExternalKind::Func, *module, index)?
                    && self.outside.contains_key(&number)
                {
                    let ty = types.index(&core.types[core.functions[index as usize] as usize]);
                    outside_types.insert(number, ty);
                }
            }
        }
        let mut imports = ImportSection::new();
        let mut declared = Vec::new();
        for (number, place) in &self.outside {
            let ty = *outside_types.get(number).ok_or(Error::Shape("a canonical function is exported"))?;
            imports.import(HOST, &place.to_string(), EntityType::Function(ty));
            declared.push((place.to_string(), ty));
        }
        let memory = self.memory(order)?;
        imports.import(IMAGE.0, IMAGE.1, memory);

        let mut functions = FunctionSection::new();
        let mut next = self.outside.len() as u32;
        let mut lives = Vec::new();
        for (_, module) in order {
            for (_, index) in self.live.range((*module, 0)..=(*module, u32::MAX)) {
                let core = self.core(*module);
                functions.function(types.index(&core.types[core.functions[*index as usize] as usize]));
                lives.push((*module, *index, next));
                next += 1;
            }
        }
        self.functions = lives.iter().map(|(module, index, number)| ((*module, *index), *number)).collect();

        let mut code = CodeSection::new();
        for (module, index, _) in &lives {
            let core = self.core(*module);
            let body = core.bodies[(index - core.imported_count(ExternalKind::Func)) as usize].clone();
            Body { plan: self, types: &mut types, module: *module }.parse_function_body(&mut code, body)?;
        }
        let (tables, elements) = self.tables(order)?;
        let (mut globals, mut exports) = (GlobalSection::new(), ExportSection::new());
        let mut changing = Vec::new();
        exports.export(IMAGE.1, ExportKind::Memory, 0);
        let mut exported = BTreeMap::new();
        let mut module_type = ModuleType::new();
        for ty in &types.all {
            let (parameters, results) = values(ty)?;
            module_type.ty().function(parameters, results);
        }
        for (name, ty) in &declared {
            module_type.import(HOST, name, EntityType::Function(*ty));
        }
        module_type.import(IMAGE.0, IMAGE.1, EntityType::Memory(memory));
        module_type.export(IMAGE.1, EntityType::Memory(memory));
        let global_type =
            wasm_encoder::GlobalType { val_type: wasm_encoder::ValType::I32, mutable: true, shared: false };
        for ((module, index), number) in &self.globals {
            let value = self.constants[&(*module, *index)];
            globals.global(global_type, &ConstExpr::i32_const(value));
            let name = format!("global-{number}");
            exports.export(&name, ExportKind::Global, *number);
            module_type.export(&name, EntityType::Global(global_type));
            changing.push((name, value));
        }
        for target in wanted {
            if let Target::Inside { module, index } = target {
                let name = format!("function-{}", exported.len());
                exports.export(&name, ExportKind::Func, self.functions[&(*module, *index)]);
                let core = self.core(*module);
                let ty = types.index(&core.types[core.functions[*index as usize] as usize]);
                module_type.export(&name, EntityType::Function(ty));
                exported.insert(*target, name);
            }
        }

        let mut module = Module::new();
        module.section(&types.section()?).section(&imports).section(&functions).section(&tables);
        module.section(&globals).section(&exports).section(&elements).section(&code);
        Ok(Joined {
            module: module.finish(),
            module_type,
            memory,
            imports: self.outside.keys().copied().collect(),
            exports: exported,
            globals: changing,
            data: self.data(order, memory)?,
        })
    }

    fn memory(&self, order: &[(u32, u32)]) -> Result<MemoryType, Error> {
        let mut memories = order.iter().flat_map(|(_, module)| &self.core(*module).memories);
        let (Some(memory), None) = (memories.next(), memories.next()) else {
            return Err(Error::Shape("its modules have not one memory"));
        };
        Ok(RoundtripReencoder.memory_type(*memory)?)
    }

    fn data(&self, order: &[(u32, u32)], memory: MemoryType) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; memory.minimum as usize * super::link::PAGE_BYTES];
        for (_, module) in order {
            for (offset, data) in &self.core(*module).data {
                let start = self.value(*module, offset)? as u32 as usize;
                let into = bytes.get_mut(start..start + data.len());
                into.ok_or(Error::Shape("data lies outside of memory"))?.copy_from_slice(data);
            }
        }
        Ok(bytes)
    }

    /// The one table, and all that is put into it.
    fn tables(&self, order: &[(u32, u32)]) -> Result<(TableSection, ElementSection), Error> {
        let (mut tables, mut elements) = (TableSection::new(), ElementSection::new());
        let mut defined = order.iter().flat_map(|(_, module)| &self.core(*module).tables);
        let (Some(table), None) = (defined.next(), defined.next()) else {
            return Err(Error::Shape("its modules have not one table"));
        };
        tables.table(RoundtripReencoder.table_type(*table)?);
        for (_, module) in order {
            for element in &self.core(*module).elements {
                let ElementKind::Active { offset_expr, .. } = &element.kind else {
                    return Err(Error::Shape("a module has passive elements"));
                };
                let offset = self.value(*module, offset_expr)?;
                let mut numbers = Vec::new();
                for function in functions_of(element)? {
                    numbers.push(self.function(*module, function)?);
                }
                elements.active(Some(0), &ConstExpr::i32_const(offset), Elements::Functions(numbers.into()));
            }
        }
        Ok((tables, elements))
    }

    /// The number of a module's function in the one module.
    fn function(&self, module: u32, index: u32) -> Result<u32, Error> {
        let missing = Error::Shape("a function is not there");
        match self.target(ExternalKind::Func, module, index)? {
            Target::Outside(number) => self.outside.get(&number).copied().ok_or(missing),
            Target::Inside { module, index } => self.functions.get(&(module, index)).copied().ok_or(missing),
        }
    }
}

fn functions_of(element: &wasmparser::Element<'_>) -> Result<Vec<u32>, Error> {
    match &element.items {
        ElementItems::Functions(functions) => Ok(functions.clone().into_iter().collect::<Result<_, _>>()?),
        ElementItems::Expressions(..) => Err(Error::Shape("a module has elements that are expressions")),
    }
}

/// Rewrites a function's body with the numbers of the one module.
struct Body<'p, 'q, 'a> {
    plan: &'p Plan<'q, 'a>,
    types: &'p mut Types,
    module: u32,
}

impl Reencode for Body<'_, '_, '_> {
    type Error = Error;

    fn function_index(&mut self, index: u32) -> Result<u32, ReencodeError<Error>> {
        self.plan.function(self.module, index).map_err(ReencodeError::UserError)
    }

    fn type_index(&mut self, index: u32) -> Result<u32, ReencodeError<Error>> {
        let ty = &self.plan.core(self.module).types[index as usize];
        Ok(self.types.index(ty))
    }

    fn global_index(&mut self, index: u32) -> Result<u32, ReencodeError<Error>> {
        let target = self.plan.target(ExternalKind::Global, self.module, index).map_err(ReencodeError::UserError)?;
        match target {
            Target::Inside { module, index } => self.plan.globals.get(&(module, index)).copied(),
            Target::Outside(_) => None,
        }
        .ok_or(ReencodeError::UserError(Error::Shape("a global is not there")))
    }

    fn instruction<'a>(&mut self, operator: Operator<'a>) -> Result<Instruction<'a>, ReencodeError<Error>> {
        if let Operator::GlobalGet { global_index } = operator {
            let target = self.plan.target(ExternalKind::Global, self.module, global_index);
            if let Target::Inside { module, index } = target.map_err(ReencodeError::UserError)?
                && !self.plan.globals.contains_key(&(module, index))
                && let Some(value) = self.plan.constants.get(&(module, index))
            {
                return Ok(Instruction::I32Const(*value));
            }
        }
        wasm_encoder::reencode::utils::instruction(self, operator)
    }
}
