//! The index's key, borrowed.

use std::hash::{Hash, Hasher};

use crate::names::FunctionKey;
use crate::tenant::Namespace;

/// Looks a key up without making one.
pub(super) struct Key<'a>(pub(super) Namespace, pub(super) &'a str);

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As the derived `Hash` of `FunctionKey`: the namespace, then the name, which hashes as its text.
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl papaya::Equivalent<FunctionKey> for Key<'_> {
    fn equivalent(&self, key: &FunctionKey) -> bool {
        self.0 == key.namespace && self.1 == key.name.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_borrowed_key_finds_what_an_owned_one_stored() {
        let namespace = crate::Tenant::from_subject("a").namespace();
        let map = papaya::HashMap::new();
        map.pin().insert(FunctionKey::new(namespace, "hello".parse().unwrap()), 1);
        assert_eq!(map.pin().get(&Key(namespace, "hello")), Some(&1));
        assert_eq!(map.pin().get(&Key(namespace, "hell")), None);
        assert_eq!(map.pin().get(&Key(crate::Tenant::from_subject("b").namespace(), "hello")), None);
    }
}
