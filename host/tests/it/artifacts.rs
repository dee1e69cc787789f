//! Only what the platform signed is mapped, once, and found again after a restart.

use std::sync::Arc;

use bytes::Bytes;
use sless_core::artifact::{ModuleRef, ModuleStatement, PrivateKey, Statement};
use sless_core::{ArtifactRef, ColdGrade, Digest, Outcome};
use sless_host::Settings;

use crate::world::{World, compile, compile_module, compiled, eventually, function_key, guest, key, settings, sign};

#[tokio::test]
async fn cold_starts_are_told_apart() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.works().await;
    kitchen.works().await;
    world.host.unmap_code().await;
    eventually(|| world.host.stats().code_mapped_bytes == 0).await;
    kitchen.works().await;
    let restarted = World::over(settings(), world.store.clone(), world.cache.clone());
    restarted.kitchen(|_| {}).works().await;
    let grades = [world.row().await.cold, world.row().await.cold, world.row().await.cold, restarted.row().await.cold];
    assert_eq!(
        grades.map(Option::unwrap),
        [ColdGrade::Artifact, ColdGrade::Instance, ColdGrade::Code, ColdGrade::Code]
    );
    assert_eq!(*world.store.fetched.lock().unwrap(), 1, "the copy on disk survived the restart");
}

#[tokio::test]
async fn the_same_code_is_mapped_once_for_all_functions() {
    let world = World::new();
    let (wasm, code) = compiled("kitchen");
    world.kitchen(|_| {}).works().await;
    let other = sign(&function_key("other"), wasm, &code);
    world.function("other", Some(other), |_| {}).works().await;
    assert_eq!(world.host.stats().code_mapped_bytes, code.len() as u64);
    assert_eq!((world.host.stats().artifacts_cached, *world.store.fetched.lock().unwrap()), (1, 1));
}

#[tokio::test]
async fn preparing_maps_and_the_first_call_is_not_cold() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    kitchen.target.prepare().await.unwrap();
    kitchen.target.prepare().await.unwrap();
    kitchen.works().await;
    assert_eq!(world.row().await.cold, Some(ColdGrade::Instance));
}

#[tokio::test]
async fn code_that_does_not_fit_the_cache_still_serves_and_is_let_go() {
    let world = World::with(Settings { code_cache_bytes: 1, disk_cache_bytes: 1, ..settings() });
    let kitchen = world.kitchen(|_| {});
    kitchen.works().await;
    kitchen.works().await;
    eventually(|| world.host.stats().code_mapped_bytes == 0).await;
    assert_eq!(world.host.stats().artifacts_cached, 0);
}

#[tokio::test]
async fn artifacts_that_are_not_the_platforms_are_refused() {
    let world = World::new();
    let (wasm, code) = compiled("kitchen");
    let key = function_key("kitchen");
    let good = sign(&key, wasm, &code);
    world.store.blobs.lock().unwrap().insert(good.digest, code.clone());
    let forged = |statement: Statement<'_>| PrivateKey::from_bytes(&[8; 32]).sign(&statement);
    let statement = Statement { artifact: good.digest, wasm, engine: good.engine, function: &key };
    let foreign_engine = {
        let engine = Digest::of(b"another engine");
        let statement = Statement { engine, ..statement.clone() };
        ArtifactRef { engine, signature: crate::world::key().sign(&statement), ..good.clone() }
    };
    for (name, artifact) in [
        ("another key", ArtifactRef { signature: forged(statement), ..good.clone() }),
        ("another function", sign(&function_key("other"), wasm, &code)),
        ("another component", ArtifactRef { wasm: Digest::of(b"x"), ..good.clone() }),
        ("another engine", foreign_engine),
    ] {
        let function = world.function("kitchen", Some(artifact), |_| {});
        assert_eq!(function.target.prepare().await.unwrap_err().outcome, Outcome::FunctionNotReady, "{name}");
        assert_eq!(function.failure("/hello").await.outcome, Outcome::FunctionNotReady, "{name}");
    }
    assert_eq!(*world.store.fetched.lock().unwrap(), 0, "not even fetched");
    let none = world.function("kitchen", None, |_| {});
    assert_eq!(none.failure("/hello").await.outcome, Outcome::FunctionNotReady);
}

#[tokio::test]
async fn artifacts_that_are_not_what_was_signed_are_refused() {
    let world = World::new();
    let (wasm, code) = compiled("kitchen");
    let key = function_key("kitchen");
    let mut flipped = code.to_vec();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let artifact = sign(&key, wasm, &code);
    for (name, bytes) in [
        ("one bit", Bytes::from(flipped)),
        ("cut", code.slice(..code.len() - 1)),
        ("longer", [&code[..], b"x"].concat().into()),
        ("nothing", Bytes::new()),
    ] {
        world.store.blobs.lock().unwrap().insert(artifact.digest, bytes);
        let function = world.function("kitchen", Some(artifact.clone()), |_| {});
        assert_eq!(function.failure("/hello").await.outcome, Outcome::FunctionNotReady, "{name}");
        assert_eq!(world.host.stats().artifacts_cached, 0, "{name}");
    }
    // Signed, but not made by a compiler: the bytes are as they were signed, and wasmtime refuses them.
    let junk = Bytes::from_static(b"not an artifact");
    let signed = sign(&key, wasm, &junk);
    world.store.blobs.lock().unwrap().insert(signed.digest, junk);
    let failure = world.function("kitchen", Some(signed), |_| {}).failure("/hello").await;
    assert_eq!(failure.outcome, Outcome::FunctionNotReady);
    // Once the store is mended, the same function serves.
    world.store.blobs.lock().unwrap().insert(artifact.digest, code);
    world.function("kitchen", Some(artifact), |_| {}).works().await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_asked_again() {
    let world = World::new();
    let (wasm, code) = compiled("kitchen");
    let artifact = sign(&function_key("kitchen"), wasm, &code);
    let function = world.function("kitchen", Some(artifact.clone()), |_| {});
    let failure = function.failure("/hello").await;
    assert_eq!(failure.outcome, Outcome::FunctionNotReady);
    assert!(failure.retry_after.is_some());
    world.store.blobs.lock().unwrap().insert(artifact.digest, code);
    function.works().await;
}

#[tokio::test]
async fn functions_that_nobody_calls_are_small() {
    use sless_core::ports::invoker::Invoker as _;

    let world = World::new();
    let (wasm, code) = compiled("kitchen");
    let artifact = sign(&function_key("kitchen"), wasm, &code);
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    let targets: Vec<Arc<_>> = (0..10_000)
        .map(|index| {
            let revision = crate::world::revision(&format!("f{index}"), Some(artifact.clone()), |_| {});
            world.host.target(Arc::new(revision))
        })
        .collect();
    let each = resident().saturating_sub(before) / targets.len() as u64;
    assert!(each < 2048, "{each} bytes each");
}

/// An engine's module, and the kitchen as a component that imports it, both compiled and in the store.
fn over_a_module(world: &World) -> (ArtifactRef, ModuleRef) {
    let wasm = b"\0asm\x01\0\0\0";
    let code = compile_module(wasm);
    let (digest, wasm, engine) = (Digest::of(&code), Digest::of(wasm), sless_engine::digest());
    let signature = key().sign_module(&ModuleStatement { artifact: digest, wasm, engine });
    let module = ModuleRef { digest, size_bytes: code.len() as u64, wasm, engine, signature };
    world.store.blobs.lock().unwrap().insert(digest, code);

    let mut component = guest("kitchen");
    // A type of modules that import and export nothing, and an import of that type.
    component.extend([3, 3, 1, 0x50, 0]);
    let name = module.import();
    component.extend([10, name.len() as u8 + 6, 1, 0, name.len() as u8]);
    component.extend(name.as_bytes());
    component.extend([0, 0x11, 0]);
    let code = compile(&component);
    let artifact = sign(&function_key("kitchen"), Digest::of(&component), &code);
    world.store.blobs.lock().unwrap().insert(artifact.digest, code);
    (ArtifactRef { modules: vec![module.clone()], ..artifact }, module)
}

#[tokio::test]
async fn a_module_is_mapped_once_for_all_functions_over_it() {
    let world = World::new();
    let (artifact, module) = over_a_module(&world);
    world.function("kitchen", Some(artifact.clone()), |_| {}).works().await;
    let both = artifact.size_bytes + module.size_bytes;
    assert_eq!(world.host.stats().code_mapped_bytes, both);
    assert_eq!(*world.store.fetched.lock().unwrap(), 2);
    world.host.unmap_code().await;
    eventually(|| world.host.stats().code_mapped_bytes == module.size_bytes).await;
    world.function("kitchen", Some(artifact), |_| {}).works().await;
    assert_eq!(world.host.stats().code_mapped_bytes, both);
    assert_eq!(*world.store.fetched.lock().unwrap(), 2);
}

#[tokio::test]
async fn modules_that_are_not_the_platforms_are_refused() {
    let world = World::new();
    let (artifact, module) = over_a_module(&world);
    let function = function_key("kitchen");
    let ModuleRef { digest, wasm, engine, .. } = module;
    let of_function = key().sign(&Statement { artifact: digest, wasm, engine, function: &function });
    let of_another = PrivateKey::from_bytes(&[8; 32]).sign_module(&ModuleStatement { artifact: digest, wasm, engine });
    let foreign = Digest::of(b"another engine");
    let for_foreign = key().sign_module(&ModuleStatement { artifact: digest, wasm, engine: foreign });
    let other = Digest::of(b"another module");
    let of_other = key().sign_module(&ModuleStatement { artifact: digest, wasm: other, engine });
    for (name, modules) in [
        ("signed as a function's artifact", vec![ModuleRef { signature: of_function, ..module.clone() }]),
        ("signed with another key", vec![ModuleRef { signature: of_another, ..module.clone() }]),
        ("for another engine", vec![ModuleRef { engine: foreign, signature: for_foreign, ..module.clone() }]),
        ("another module under its digest", vec![ModuleRef { wasm: other, ..module.clone() }]),
    ] {
        let refused = world.function("kitchen", Some(ArtifactRef { modules, ..artifact.clone() }), |_| {});
        assert_eq!(refused.failure("/hello").await.outcome, Outcome::FunctionNotReady, "{name}");
    }
    assert_eq!(*world.store.fetched.lock().unwrap(), 0, "not even fetched");
    // Good signatures, but not the module that the component names.
    for (name, modules) in
        [("none", vec![]), ("another", vec![ModuleRef { wasm: other, signature: of_other, ..module.clone() }])]
    {
        let refused = world.function("kitchen", Some(ArtifactRef { modules, ..artifact.clone() }), |_| {});
        assert_eq!(refused.failure("/hello").await.outcome, Outcome::FunctionNotReady, "{name}");
    }
    world.function("kitchen", Some(artifact), |_| {}).works().await;
}
