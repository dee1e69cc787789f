//! The platform's part of a build context: the server of a container runtime and its `Dockerfile`, as this release has
//! them.
//!
//! A runtime in the host pool needs none, but its context has that of the same language: changing only `runtime` then
//! builds from the very same context.

use sless_core::Runtime;

use super::Tree;

/// A path of a context, and the file's bytes.
type File = (&'static str, &'static [u8]);

macro_rules! files {
    ($folder:literal: $($path:literal)*) => {
        &[
            ("Dockerfile", include_bytes!(concat!("../../../runtimes/", $folder, "/Dockerfile"))),
            $((concat!("runtime/", $path), include_bytes!(concat!("../../../runtimes/", $folder, "/", $path))),)*
        ]
    };
}

const PYTHON: &[File] = files!("python3.11":
    "server.py"
    "sless_runtime/__init__.py"
    "sless_runtime/call.py"
    "sless_runtime/calls.py"
    "sless_runtime/event.py"
    "sless_runtime/head.py"
    "sless_runtime/http1.py"
    "sless_runtime/load.py"
    "sless_runtime/logs.py"
    "sless_runtime/main.py"
    "sless_runtime/problem.py"
    "sless_runtime/response.py"
    "sless_runtime/settings.py"
    "sless_runtime/watchdog.py"
    "sless_runtime/workers.py"
);

const NODEJS: &[File] = files!("nodejs20":
    "lib/calls.js"
    "lib/event.js"
    "lib/load.js"
    "lib/logs.js"
    "lib/problem.js"
    "lib/response.js"
    "lib/settings.js"
    "lib/watchdog.js"
    "package.json"
    "server.js"
);

/// The files for a runtime; none for one that takes no source.
pub fn files(runtime: Runtime) -> Tree {
    let files = match runtime {
        Runtime::Python311 | Runtime::WasmPython => PYTHON,
        Runtime::Nodejs20 | Runtime::WasmJs => NODEJS,
        Runtime::Wasm => &[],
    };
    let mut tree = Tree::new();
    for (path, bytes) in files {
        tree.insert(path, bytes.to_vec()).expect("the platform's files have short names of their own");
    }
    tree
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every file below a folder, as a context has it.
    fn there(root: &Path, folder: &Path, found: &mut Tree) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().unwrap() != "__pycache__" {
                    there(root, &path, found);
                }
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            let name = if name == "Dockerfile" { name.to_owned() } else { format!("runtime/{name}") };
            found.insert(&name, std::fs::read(&path).unwrap()).unwrap();
        }
    }

    #[test]
    fn every_file_of_a_runtime_is_in_its_context() {
        for runtime in [Runtime::Python311, Runtime::Nodejs20] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtimes").join(runtime.name());
            let mut found = Tree::new();
            there(&root, &root, &mut found);
            let paths = |tree: &Tree| tree.iter().map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
            assert_eq!(paths(&files(runtime)), paths(&found));
            assert_eq!(files(runtime), found);
        }
    }
}
