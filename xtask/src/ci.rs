//! What a change has to pass, in steps. Every step is run, so that one run shows all that is wrong.
//!
//! A step that this machine can't run is reported as skipped, with the reason, and never as passed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{deny, engines as engine, fuzz, generate, guests, sdks, sh, terraform, tidy, workspace};

/// Whole-system tests live in this package. A test target is of the tier whose word its name begins with, else embedded.
const SYSTEM_TESTS: &str = "sless-tests";
/// What the names of test targets that need more than the machine itself begin with.
const TIERS: &[(&str, &str)] = &[("sdks", "sdks"), ("services", "with_services"), ("cluster", "on_cluster")];
/// Fuzzing in CI looks for what breaks at once; longer runs are for people.
const FUZZ_SECONDS: u32 = 20;

/// How a step ended, if not in an error.
pub(crate) enum Done {
    /// All of it was run, and well.
    Passed,
    /// What was run passed; which part was not run, and why.
    PassedBut(String),
    /// Not run, and why.
    Skipped(String),
}

type Step = (&'static str, &'static str, fn(&Path) -> Result<Done>);

/// In the order of what is quick to say no.
const STEPS: &[Step] = &[
    ("fmt", "rustfmt agrees", fmt),
    ("tidy", "the architecture's invariants hold", |root| passed(tidy::run(root))),
    ("clippy", "no warning", clippy),
    ("guests", "the guests build", |root| passed(guests::run(root).map(drop))),
    ("engines", "the engines of languages build, and are prepared", engines),
    ("quick", "unit, property and contract tests of every package, and those of the examples", quick),
    ("runtimes", "the servers of container functions, in Python and JavaScript", runtimes),
    ("sdks", "the libraries for functions, and every template of `sless new`", sdks_and_templates),
    ("embedded", "whole-system tests without services", |root| tier(root, "embedded")),
    ("terraform", "the Terraform provider: unit tests, what is generated, acceptance tests", terraform::check),
    ("services", "whole-system tests with Postgres, RabbitMQ and the like", |root| tier(root, "services")),
    ("cluster", "whole-system tests on Kubernetes", |root| tier(root, "cluster")),
    ("gen", "docs/reference is up to date", |root| passed(generate::run(root, true))),
    ("deny", "licences, bans, sources, advisories", deny::run),
    ("fuzz", "fuzz targets find nothing within seconds", |root| fuzz::run(root, FUZZ_SECONDS)),
];

/// Steps that only run when they are named: the fuzz targets need a nightly compiler and a sanitised build of all that is
/// below them, which costs more than the rest of a run together.
const BY_NAME: &[&str] = &["fuzz"];

/// Names the steps.
pub(crate) fn list() {
    for (name, what, _) in STEPS {
        println!("{name:<10}{what}");
    }
}

/// Runs the named steps, or all.
pub(crate) fn run(root: &Path, wanted: &[String]) -> Result<()> {
    if let Some(unknown) = wanted.iter().find(|name| !STEPS.iter().any(|(step, ..)| step == name)) {
        bail!("there is no step `{unknown}`; `cargo xtask ci --list` names them");
    }
    let mut results = Vec::new();
    for (name, _, step) in STEPS.iter().filter(|(name, ..)| wanted.is_empty() || wanted.iter().any(|w| w == name)) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = if wanted.is_empty() && BY_NAME.contains(name) {
            Ok(Done::Skipped(format!("runs by name: `cargo xtask ci {name}`")))
        } else {
            step(root)
        };
        if let Err(error) = &result {
            println!("failed: {error:#}");
        }
        results.push((*name, start.elapsed(), result));
    }
    summary(&results)
}

fn summary(results: &[(&str, Duration, Result<Done>)]) -> Result<()> {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("\n== summary");
    for (name, took, result) in results {
        let word = match result {
            Ok(Done::Passed) => {
                passed += 1;
                "passed".to_owned()
            }
            Ok(Done::PassedBut(part)) => {
                passed += 1;
                format!("passed; {part}")
            }
            Ok(Done::Skipped(why)) => {
                skipped += 1;
                format!("skipped: {why}")
            }
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("{name:<10}{:>5} s  {word}", took.as_secs());
    }
    println!("\nsteps: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        bail!("{failed} steps failed");
    }
    Ok(())
}

fn passed(result: Result<()>) -> Result<Done> {
    result.map(|()| Done::Passed)
}

fn fmt(root: &Path) -> Result<Done> {
    sh::run(sh::cargo(root).args(["fmt", "--all", "--check"]))?;
    for folder in guests::folders(root)? {
        sh::run(sh::cargo(&folder).args(["fmt", "--check"]))?;
    }
    Ok(Done::Passed)
}

fn clippy(root: &Path) -> Result<Done> {
    sh::run(sh::cargo(root).args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Done::Passed)
}

// Everything is built for the whole workspace at once: cargo unifies features over a build, so builds of single packages
// would make dependencies a second time.
fn quick(root: &Path) -> Result<Done> {
    sh::run(sh::cargo(root).args(["test", "--no-fail-fast", "--workspace", "--exclude", SYSTEM_TESTS]))?;
    // Guests have a lock file of their own, so their dependencies would evict the workspace's from its target folder.
    let target = workspace::cache()?.join("examples-target");
    for folder in guests::folders(root)?.iter().filter(|folder| folder.join("tests").is_dir()) {
        sh::run(sh::cargo(folder).args(["test", "--quiet", "--no-fail-fast"]).env("CARGO_TARGET_DIR", &target))?;
    }
    Ok(Done::Passed)
}

/// The engines of languages, beside the programs that tests start; the builder prepares them.
fn engines(root: &Path) -> Result<Done> {
    if let Some(missing) = engine::missing(root) {
        return Ok(Done::Skipped(missing));
    }
    sh::run(sh::cargo(root).args(["build", "--workspace", "--bins"]))?;
    passed(engine::run(root, "debug").map(drop))
}

/// The runtimes' own tests, where their languages are.
fn runtimes(root: &Path) -> Result<Done> {
    if !root.join("runtimes/test.sh").is_file() {
        return Ok(Done::Skipped("there is no runtime yet".to_owned()));
    }
    let version = |program: &str| sh::output(sh::command(root, program).arg("--version")).unwrap_or_default();
    if !["python3.11", "python3"].iter().any(|python| version(python).starts_with("Python 3.11.")) {
        return Ok(Done::Skipped("there is no Python 3.11".to_owned()));
    }
    if !version("node").starts_with("v20.") {
        return Ok(Done::Skipped("there is no Node.js 20".to_owned()));
    }
    passed(sh::run(&mut sh::command(root, "runtimes/test.sh")))
}

fn sdks_and_templates(root: &Path) -> Result<Done> {
    let libraries = sdks::run(root)?;
    sdks::componentize(root)?;
    tier(root, "sdks")?;
    Ok(libraries)
}

/// Runs one tier of the whole-system tests.
fn tier(root: &Path, name: &str) -> Result<Done> {
    let packages = workspace::packages(root)?;
    let tests = packages.iter().filter(|package| package.name == SYSTEM_TESTS).flat_map(|package| &package.tests);
    let tests: Vec<_> = tests.filter(|test| tier_of(test) == name).flat_map(|test| ["--test", test]).collect();
    if tests.is_empty() {
        return Ok(Done::Skipped("there is no test in this tier yet".to_owned()));
    }
    if let Some(missing) = missing(root, name) {
        return Ok(Done::Skipped(missing));
    }
    // They drive the programs as a user does, so these have to be there.
    sh::run(sh::cargo(root).args(["build", "--workspace", "--bins"]))?;
    sh::run(sh::cargo(root).args(["test", "--no-fail-fast", "--workspace"]).args(tests))?;
    Ok(Done::Passed)
}

fn tier_of(test: &str) -> &'static str {
    TIERS.iter().find(|(_, begins)| test.starts_with(begins)).map_or("embedded", |(tier, _)| tier)
}

/// What a tier needs of the machine and does not find.
fn missing(root: &Path, tier: &str) -> Option<String> {
    let needs_root = matches!(tier, "services" | "cluster");
    let is_root = || sh::output(sh::command(root, "id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    (needs_root && !is_root()).then(|| "it starts services, which needs root".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_of_one_tier_and_each_tier_is_a_step() {
        assert_eq!(tier_of("services"), "embedded", "the use-cases' tests");
        assert_eq!(tier_of("with_services_queue"), "services");
        assert_eq!(tier_of("on_cluster"), "cluster");
        for (tier, _) in TIERS {
            assert!(STEPS.iter().any(|(step, ..)| step == tier));
        }
    }

    #[test]
    fn a_skipped_step_is_no_failure_and_a_failed_one_is() {
        let skipped = ("deny", Duration::ZERO, Ok(Done::Skipped("no database".to_owned())));
        assert!(summary(&[skipped]).is_ok());
        let failed = ("fmt", Duration::ZERO, Err(anyhow::anyhow!("no")));
        assert!(summary(&[("tidy", Duration::ZERO, Ok(Done::Passed)), failed]).is_err());
    }
}
