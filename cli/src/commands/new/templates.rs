//! The files of new functions, inside the program: a template a language and the library that it is written against, both
//! from `guest-sdks/`. A function made by this program gets the library that fits it.

use sless_core::Runtime;
use sless_core::names::FunctionName;

use crate::args::Language;

/// A file of a new function.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    /// Where it goes, relative to the function's folder.
    pub(super) path: &'static str,
    contents: &'static str,
}

impl File {
    /// Its text, with the function's own words in it.
    pub(super) fn text(&self, name: &FunctionName, runtime: Runtime) -> String {
        self.contents.replace("{{name}}", name.as_str()).replace("{{runtime}}", runtime.name())
    }
}

/// What a function in a language begins as.
#[derive(Debug)]
pub(super) struct Template {
    /// What can run it; the first is the default.
    pub(super) runtimes: &'static [Runtime],
    /// The command that tries it without a server.
    pub(super) test: &'static str,
    /// What has to be installed.
    pub(super) needs: &'static str,
    own: &'static [File],
    library: &'static [File],
}

impl Template {
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.own.iter().chain(self.library)
    }
}

/// `files!("from folder", "to folder/"; names…)`: files of `guest-sdks/`.
macro_rules! files {
    ($from:literal, $to:literal; $($name:literal),* $(,)?) => {
        &[$(File {
            path: concat!($to, $name),
            contents: include_str!(concat!("../../../../guest-sdks/", $from, "/", $name)),
        }),*]
    };
}

const RUST: Template = Template {
    runtimes: &[Runtime::Wasm],
    test: "cargo test",
    needs: "Rust; the target by `rustup target add wasm32-wasip2`",
    own: files!("rust/template", "";
        ".cargo/config.toml", ".gitignore", ".slessignore", "Cargo.toml", "README.md", "sless.toml", "src/lib.rs"),
    library: files!("rust", "sless/";
        "Cargo.toml", "src/env.rs", "src/fetch.rs", "src/lib.rs", "src/logging.rs", "src/payload.rs", "src/problem.rs",
        "src/request.rs", "src/response.rs", "src/serve.rs", "src/testing.rs"),
};

const JS: Template = Template {
    runtimes: &[Runtime::WasmJs, Runtime::Nodejs20],
    test: "npm test",
    needs: "Node.js 20 or newer",
    own: files!("js/template", "";
        ".gitignore", ".slessignore", "README.md", "handler.js", "handler.test.js", "package.json", "sless.toml"),
    library: files!("js", "sless/";
        "contract/event.js", "contract/response.js", "index.d.ts", "index.js", "package.json", "testing.d.ts",
        "testing.js"),
};

const PYTHON: Template = Template {
    runtimes: &[Runtime::WasmPython, Runtime::Python311],
    test: "python3 -m unittest",
    needs: "Python 3.11 or newer",
    own: files!("python/template", "";
        ".gitignore", ".slessignore", "README.md", "handler.py", "sless.toml", "test_handler.py"),
    library: files!("python/sless", "sless/";
        "__init__.py", "contract/__init__.py", "contract/event.py", "contract/response.py", "py.typed", "testing.py"),
};

const GO: Template = Template {
    runtimes: &[Runtime::Wasm],
    test: "make test",
    needs: "Go 1.25 or newer; the third also sless-componentize",
    own: files!("go/template", "";
        ".gitignore", ".slessignore", "Makefile", "README.md", "go.mod", "main.go", "main_test.go", "sless.toml"),
    library: files!("go", "sless/";
        "fetch.go", "go.mod", "host_other.go", "host_wasip1.go",
        "internal/wit/imports/wasi_clocks_monotonic_clock/empty.s",
        "internal/wit/imports/wasi_clocks_monotonic_clock/wit_bindings.go",
        "internal/wit/imports/wasi_http_outgoing_handler/empty.s",
        "internal/wit/imports/wasi_http_outgoing_handler/wit_bindings.go",
        "internal/wit/imports/wasi_http_types/empty.s", "internal/wit/imports/wasi_http_types/wit_bindings.go",
        "internal/wit/imports/wasi_io_error/empty.s", "internal/wit/imports/wasi_io_error/wit_bindings.go",
        "internal/wit/imports/wasi_io_poll/empty.s", "internal/wit/imports/wasi_io_poll/wit_bindings.go",
        "internal/wit/imports/wasi_io_streams/empty.s", "internal/wit/imports/wasi_io_streams/wit_bindings.go",
        "log.go", "sless.go", "third_party/bytecodealliance-pkg/LICENSE",
        "third_party/bytecodealliance-pkg/README.md", "third_party/bytecodealliance-pkg/go.mod",
        "third_party/bytecodealliance-pkg/wit/runtime/empty.s",
        "third_party/bytecodealliance-pkg/wit/runtime/runtime.go",
        "third_party/bytecodealliance-pkg/wit/types/option.go",
        "third_party/bytecodealliance-pkg/wit/types/result.go",
        "third_party/bytecodealliance-pkg/wit/types/tuple.go", "third_party/bytecodealliance-pkg/wit/types/unit.go"),
};

const C: Template = Template {
    runtimes: &[Runtime::Wasm],
    test: "make test",
    needs: "a C compiler; the third clang with WASI's libc and sless-componentize",
    own: files!("c/template", "";
        ".gitignore", ".slessignore", "Makefile", "README.md", "sless.toml", "src/handler.c", "tests/test.c"),
    library: files!("c", "sless/";
        "bindings/bindings.c", "bindings/bindings.h", "internal.h", "sless.c", "sless.h", "wasi.c"),
};

/// The template of a language.
pub(super) fn of(lang: Language) -> &'static Template {
    match lang {
        Language::Rust => &RUST,
        Language::Js => &JS,
        Language::Python => &PYTHON,
        Language::Go => &GO,
        Language::C => &C,
    }
}
