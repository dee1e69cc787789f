//! What two packages have to say alike, since neither may depend on the other.

use std::collections::BTreeSet;

#[test]
fn the_builder_accepts_the_interfaces_that_the_host_gives() {
    let given: BTreeSet<_> = sless_builder::check::GIVEN.iter().map(|(interface, _)| *interface).collect();
    let linked: BTreeSet<_> = sless_host::INTERFACES.iter().copied().collect();
    assert_eq!(given, linked);
    assert!(linked.contains("wasi:http/types"), "{linked:?}");
}
