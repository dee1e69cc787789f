//! `sless new`: the folder of a new function, with a handler, a test, settings, and the library of its language.

mod templates;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sless_core::Runtime;
use sless_core::names::{FunctionName, InvalidName};

use crate::args::{Language, NewArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use templates::Template;

/// What was made, and what to do with it.
#[derive(Debug, Serialize)]
struct Made {
    name: FunctionName,
    runtime: Runtime,
    folder: PathBuf,
    files: Vec<String>,
    /// Commands for a shell, in order.
    next: Vec<String>,
    needs: &'static str,
}

pub(crate) fn run(args: NewArgs, out: &mut Output) -> Result<(), Failure> {
    let template = templates::of(args.lang);
    let name = name_of(&args.folder)?;
    let runtime = runtime(args.lang, template, args.runtime)?;
    write(template, &args.folder, &name, runtime)?;
    let made = Made {
        next: vec![format!("cd {}", quoted(&args.folder)), template.test.to_owned(), "sless deploy".to_owned()],
        files: template.files().map(|file| file.path.to_owned()).collect(),
        needs: template.needs,
        name,
        runtime,
        folder: args.folder,
    };
    out.result(&made, shown)
}

/// The function is named after its folder, whose last part is all that its owner wrote of it.
fn name_of(folder: &Path) -> Result<FunctionName, Failure> {
    let last = folder.file_name().map(|last| last.to_string_lossy().into_owned()).unwrap_or_default();
    last.parse().map_err(|error: InvalidName| {
        Failure::new(Exit::Usage, format!("NAME: no function can be named `{last}`: {error}"))
            .remedy("give a name such as hello, or a folder that ends in one")
    })
}

fn runtime(lang: Language, template: &Template, wanted: Option<Runtime>) -> Result<Runtime, Failure> {
    let runtime = wanted.unwrap_or(template.runtimes[0]);
    if template.runtimes.contains(&runtime) {
        return Ok(runtime);
    }
    let all: Vec<_> = template.runtimes.iter().map(|runtime| runtime.name()).collect();
    let lang = clap::ValueEnum::to_possible_value(&lang).expect("no language is skipped");
    Err(Failure::new(Exit::Usage, format!("--runtime: {runtime} does not run --lang {}", lang.get_name()))
        .remedy(format!("use {}, or another --lang", all.join(" or "))))
}

/// Makes the folder whole or not at all. One that is there has to be empty.
fn write(template: &Template, folder: &Path, name: &FunctionName, runtime: Runtime) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::new(Exit::Failure, format!("write {}: {error}", path.display()));
    let ours = match std::fs::create_dir(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
            if !empty {
                let text = format!("{} is there already and is not an empty folder", folder.display());
                return Err(Failure::new(Exit::Conflict, text).remedy("give another NAME, or move it away"));
            }
            false
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("the folder that {} would be in is not there", folder.display());
            return Err(Failure::new(Exit::Invalid, text).remedy("make it first"));
        }
        Err(error) => return Err(failed(folder, error)),
    };
    let result = template.files().try_for_each(|file| {
        let path = folder.join(file.path);
        let written = std::fs::create_dir_all(path.parent().expect("a file is in a folder")).and_then(|()| {
            std::fs::OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut opened| {
                use std::io::Write as _;
                opened.write_all(file.text(name, runtime).as_bytes())
            })
        });
        written.map_err(|error| failed(&path, error))
    });
    if result.is_err() && ours {
        // Half a folder would be in the way of the next try. That the failure is told matters more than this.
        let _ = std::fs::remove_dir_all(folder);
    }
    result
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !text.starts_with('-') && text.chars().all(plain) {
        return text;
    }
    format!("-- '{}'", text.replace('\'', "'\\''"))
}

fn shown(made: &Made) -> String {
    let Made { name, runtime, folder, next, needs, .. } = made;
    let next: String = next.iter().map(|command| format!("  {command}\n")).collect();
    format!(
        "made {}: the function {name}, for {runtime}

{next}
The second command tries it here and needs {needs}.
The third builds it and makes it answer; `sless dev` has to run, here or in a folder above.
",
        folder.display()
    )
}

#[cfg(test)]
mod tests;
