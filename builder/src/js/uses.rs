//! Whether a file uses others: then it has to be bundled.
//!
//! Looks for what is imported by name, without a parser. What it takes for an import in a comment or a text costs a bundle
//! that was not needed; a name that is computed is for the engine to refuse.

/// Node's modules that the engine has, besides `node:…`. A bundle leaves them outside.
pub(crate) const NODE_MODULES: &[&str] = &[
    "assert",
    "buffer",
    "crypto",
    "events",
    "path",
    "perf_hooks",
    "process",
    "querystring",
    "timers",
    "timers/promises",
    "url",
    "util",
    "util/types",
];

/// Whether the text imports anything but modules of Node's.
pub(super) fn others(text: &str) -> bool {
    ["from", "import", "require"].iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let is_word = before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '$' | '.'));
            is_word && specifier(&text[at + word.len()..]).is_some_and(|name| !is_node(name))
        })
    })
}

/// The text in quotes that follows `from`, `import(` and the like.
fn specifier(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('(').unwrap_or(rest).trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
    rest[1..].split_once(quote).map(|(name, _)| name)
}

fn is_node(name: &str) -> bool {
    name.starts_with("node:") || NODE_MODULES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_other_files_and_packages_are_seen() {
        for text in [
            "import { a } from './lib.js';",
            "import'./effects.js'",
            "export * from \"pkg\";",
            "const a = require ( 'pkg/sub' );",
            "const a = await import(`./b.js`);",
        ] {
            assert!(others(text), "{text}");
        }
        for text in [
            "import { createHash } from 'node:crypto';",
            "const { format } = require('util');",
            "const text = from + 'x'; object.require('x'); imported('y'); Buffer.from('abc');",
            "exports.handler = () => 'hello';",
        ] {
            assert!(!others(text), "{text}");
        }
    }
}
