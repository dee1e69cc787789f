//! The components that tests deploy: built by `cargo xtask guests` from `examples/` and `tests/guests/`.

use std::path::PathBuf;

/// The path of a built guest.
pub fn path(name: &str) -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "where guests are is a setting of the tests")]
    let folder = std::env::var_os("SLESS_TEST_GUESTS").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        cache.or(home).expect("HOME is set").join("sless/guests")
    });
    let path = folder.join(name).with_extension("wasm");
    assert!(path.exists(), "{} is not there; run `cargo xtask guests`", path.display());
    path
}

/// A guest that behaves as it did but has another digest: with a custom section that nothing reads.
pub fn marked(name: &str, mark: &str) -> Vec<u8> {
    let mut component = std::fs::read(path(name)).unwrap();
    let section = [&[4u8][..], b"mark", mark.as_bytes()].concat();
    assert!(section.len() < 128, "one byte of LEB128 holds the length");
    component.extend([0, section.len() as u8]);
    component.extend(section);
    component
}
