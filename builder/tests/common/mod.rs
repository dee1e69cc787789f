//! Components made for tests, and the builder's binary run on them.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failure here fails the test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use sless_core::build_protocol::{Job, Limits, Reply, Task};
use wasm_encoder::{
    CodeSection, Encode as _, ExportKind, ExportSection, Function, FunctionSection, Instruction, Module, TypeSection,
};

/// A component with the handler, around a core module that exports a function `handle` without parameters.
pub fn component(core: &[u8]) -> Vec<u8> {
    let skeleton = wat::parse_str(
        r#"(component
            (core module $m (func (export "handle")))
            (core instance $i (instantiate $m))
            (func $handle (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.3" (instance $handler)))"#,
    )
    .unwrap();
    // The first section after the header is the module; its size is below 128, so one byte.
    let (id, size) = (skeleton[8], usize::from(skeleton[9]));
    assert_eq!((id, size & 0x80), (1, 0));
    let mut component = skeleton[..9].to_vec();
    core.encode(&mut component);
    component.extend_from_slice(&skeleton[10 + size..]);
    component
}

/// A core module of these functions without parameters; the first one is the handler.
pub fn module(bodies: impl IntoIterator<Item = Function>) -> Vec<u8> {
    let (mut types, mut functions, mut exports, mut code) =
        (TypeSection::new(), FunctionSection::new(), ExportSection::new(), CodeSection::new());
    types.ty().function([], []);
    for body in bodies {
        functions.function(0);
        code.function(&body);
    }
    exports.export("handle", ExportKind::Func, 0);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&exports).section(&code);
    module.finish()
}

/// A function that does nothing.
pub fn empty() -> Function {
    let mut function = Function::new([]);
    function.instruction(&Instruction::End);
    function
}

/// A function that computes: `steps` additions and multiplications, different for each `seed`.
pub fn busy(seed: i32, steps: usize) -> Function {
    let mut function = Function::new([(4, wasm_encoder::ValType::I32)]);
    for step in 0..steps {
        let local = (step % 4) as u32;
        function
            .instruction(&Instruction::LocalGet(local))
            .instruction(&Instruction::I32Const(seed ^ step as i32))
            .instruction(&Instruction::I32Add)
            .instruction(&Instruction::LocalGet((local + 1) % 4))
            .instruction(&Instruction::I32Mul)
            .instruction(&Instruction::LocalSet((local + 2) % 4));
    }
    // Keep it from being thrown away.
    function
        .instruction(&Instruction::LocalGet(0))
        .instruction(&Instruction::If(wasm_encoder::BlockType::Empty))
        .instruction(&Instruction::Unreachable)
        .instruction(&Instruction::End)
        .instruction(&Instruction::End);
    function
}

/// What a builder process did.
pub struct Run {
    pub status: ExitStatus,
    pub reply: Option<Reply>,
    pub log: String,
}

/// Runs the binary on a job.
pub fn run(job: &Job) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sless-builder"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(job).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    Run {
        status: output.status,
        reply: serde_json::from_slice(&output.stdout).ok(),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with a component in it, and what is built of it.
pub struct Desk {
    pub folder: tempfile::TempDir,
    pub input: PathBuf,
}

impl Desk {
    pub fn new(wasm: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("component.wasm");
        std::fs::write(&input, wasm).unwrap();
        Self { folder, input }
    }

    pub fn check(&self, limits: Limits) -> Run {
        let parent = Some(std::process::id());
        run(&Job { task: Task::Check { input: self.input.clone() }, limits, parent })
    }

    /// Builds into the folder `name`, which is answered too.
    pub fn build(&self, name: &str, caches: &[&Path], limits: Limits) -> (Run, PathBuf) {
        let output = self.folder.path().join(name);
        std::fs::create_dir(&output).unwrap();
        let caches = caches.iter().map(|path| path.to_path_buf()).collect();
        let task = Task::Build { input: self.input.clone(), output: output.clone(), caches };
        (run(&Job { task, limits, parent: Some(std::process::id()) }), output)
    }
}
