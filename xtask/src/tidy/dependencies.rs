//! Invariants 1 and 2: which crate may know which.

use std::path::Path;

use anyhow::Result;

use super::Findings;
use crate::sh;
use crate::workspace::Package;

/// What `core` must not reach, not even through others: it does no I/O and knows no brand.
const NOT_IN_CORE: &[&str] = &["kube", "sqlx", "axum", "hyper", "wasmtime", "aws-", "lapin", "reqwest", "rustls"];

/// Who alone may name a crate; tests of others may not either. A name that ends in `-` or `*` stands for all that begin so.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("wasmtime*", &["sless-engine", "sless-host", "sless-builder", "sless-benches"]),
    ("kube*", &["sless-operator"]),
    ("sqlx", &["sless-adapters"]),
    ("lapin", &["sless-adapters"]),
    ("redis", &["sless-adapters"]),
    ("aws-*", &["sless-adapters"]),
    ("rmqtt*", &["sless-adapters"]),
    ("governor", &["sless-adapters"]),
    ("axum", &["sless-api"]),
];

/// What a package may use of the workspace: dependencies point down, and no role knows another role or an adapter.
const MAY_USE: &[(&str, &[&str])] = &[
    ("sless-core", &[]),
    ("sless-engine", &["sless-core"]),
    ("sless-host", &["sless-core", "sless-engine"]),
    ("sless-builder", &["sless-core", "sless-engine"]),
    ("sless-adapters", &["sless-core"]),
    ("sless-api", &["sless-core"]),
    ("sless-client", &["sless-core"]),
    ("sless-server", &["sless-core", "sless-api", "sless-host", "sless-builder", "sless-adapters", "sless-engine"]),
    // `sless` runs itself again as the builder of `sless dev`, before there is a runtime or a thread.
    ("sless-cli", &["sless-core", "sless-client", "sless-server", "sless-builder"]),
];

/// Checks the manifests, and what `core` reaches through others.
pub(super) fn check(root: &Path, packages: &[Package], findings: &mut Findings) -> Result<()> {
    for package in packages {
        for dependency in &package.dependencies {
            if let Some((_, allowed)) = ONLY_IN.iter().find(|(pattern, _)| matches(pattern, &dependency.name))
                && !allowed.contains(&package.name.as_str())
            {
                findings.add(
                    &package.name,
                    format!("names {}, which only {} may (invariant 2)", dependency.name, allowed.join(", ")),
                );
            }
            let below = MAY_USE.iter().find(|(name, _)| *name == package.name);
            if let Some((_, allowed)) = below
                && dependency.name.starts_with("sless-")
                && !dependency.dev
                && !allowed.contains(&dependency.name.as_str())
            {
                findings.add(&package.name, format!("uses {}; dependencies point down", dependency.name));
            }
        }
    }
    let tree = ["tree", "--package", "sless-core", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let tree = sh::output(sh::cargo(root).args(tree))?;
    for name in tree.lines().filter_map(|line| line.split(' ').next()) {
        if NOT_IN_CORE.iter().any(|banned| name == *banned || banned.ends_with('-') && name.starts_with(banned)) {
            findings.add("sless-core", format!("reaches {name}; core does no I/O (invariant 1)"));
        }
    }
    Ok(())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_a_family() {
        assert!(matches("wasmtime*", "wasmtime-wasi-http"));
        assert!(matches("sqlx", "sqlx"));
        assert!(!matches("sqlx", "sqlx-core"));
    }
}
