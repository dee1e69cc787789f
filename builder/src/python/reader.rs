//! The module by which a builder reads memory and globals.

use wasm_encoder::{
    CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalType, ImportSection,
    Instruction, MemArg, Module, TypeSection, ValType,
};

use super::join::Joined;
use super::link::{IMAGE, PAGE_BYTES, READ_MEMORY};

/// The module with the builder's functions. Where the memory lies is answered in the first bytes of the memory itself,
/// which are nobody's: address 0 is null.
pub(super) fn reader(joined: &Joined) -> Vec<u8> {
    let (mut types, mut imports, mut functions) = (TypeSection::new(), ImportSection::new(), FunctionSection::new());
    let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
    types.ty().function([], [ValType::I32]);
    imports.import("engine", IMAGE.1, EntityType::Memory(joined.memory));
    functions.function(0);
    exports.export(READ_MEMORY, ExportKind::Func, 0);
    let at = |offset| MemArg { offset, align: 2, memory_index: 0 };
    let mut body = Function::new([]);
    body.instruction(&Instruction::I32Const(0)).instruction(&Instruction::I32Const(0));
    body.instruction(&Instruction::I32Store(at(0)));
    body.instruction(&Instruction::I32Const(0)).instruction(&Instruction::MemorySize(0));
    body.instruction(&Instruction::I32Const(PAGE_BYTES as i32)).instruction(&Instruction::I32Mul);
    body.instruction(&Instruction::I32Store(at(4))).instruction(&Instruction::I32Const(0));
    body.instruction(&Instruction::End);
    code.function(&body);
    let global = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    for ((name, _), number) in joined.globals.iter().zip(0..) {
        imports.import("engine", name, EntityType::Global(global));
        functions.function(0);
        exports.export(name, ExportKind::Func, number + 1);
        let mut body = Function::new([]);
        body.instruction(&Instruction::GlobalGet(number)).instruction(&Instruction::End);
        code.function(&body);
    }
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
    module.finish()
}
