//! Names of functions, triggers and secrets: parsed once, then passed as types.
//!
//! One rule for all (RFC 1035 labels as Kubernetes uses them): a lower-case letter, then lower-case letters, digits and
//! hyphens, not ending in a hyphen, at most [`MAX_NAME_BYTES`] bytes; `kubernetes` and `sless-…` are reserved.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tenant::Namespace;

/// A label has room for 63 bytes; the rest is left for suffixes that the platform adds to names of its own objects.
pub const MAX_NAME_BYTES: usize = 48;

/// The rule in words: what every refused name is answered with.
pub const NAME_RULE: &str = "a name starts with a lower-case letter, goes on with lower-case letters, digits or hyphens, \
     does not end in a hyphen, has at most 48 characters, and is neither `kubernetes` nor begins with `sless-`";

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a valid name: {NAME_RULE}")]
pub struct InvalidName {
    /// The refused text, cut to 64 characters.
    pub name: String,
}

/// Checks `name` against the rule of this module.
pub fn check(name: &str) -> Result<(), InvalidName> {
    let bytes = name.as_bytes();
    let ok = matches!(bytes.first(), Some(b'a'..=b'z'))
        && bytes.len() <= MAX_NAME_BYTES
        && bytes.last() != Some(&b'-')
        && bytes.iter().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && name != "kubernetes"
        && !name.starts_with("sless-");
    if ok { Ok(()) } else { Err(InvalidName { name: name.chars().take(64).collect() }) }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(std::sync::Arc<str>);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $type {
            type Err = InvalidName;
            fn from_str(name: &str) -> Result<Self, InvalidName> {
                check(name).map(|()| Self(name.into()))
            }
        }
        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(name: String) -> Result<Self, InvalidName> {
                name.parse()
            }
        }
        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(NAME_RULE))
                    .pattern(Some("^[a-z]([a-z0-9-]*[a-z0-9])?$"))
                    .max_length(Some(MAX_NAME_BYTES))
                    .into()
            }
        }
        impl utoipa::ToSchema for $type {}
    };
}

name_type!(
    /// The name of a function, unique in its namespace.
    FunctionName
);
name_type!(
    /// The name of a trigger, unique in its namespace.
    TriggerName
);
name_type!(
    /// The name of a secret, unique in its namespace.
    SecretName
);

/// A function of a tenant: what logs, limits and routes are keyed by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionKey {
    /// Whose it is.
    pub namespace: Namespace,
    /// Its name there.
    pub name: FunctionName,
}

impl FunctionKey {
    /// Joins the two parts.
    pub fn new(namespace: Namespace, name: FunctionName) -> Self {
        Self { namespace, name }
    }
}

impl fmt::Display for FunctionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rule_is_kept() {
        let longest = "a".repeat(48);
        for good in ["controller", "a", "a1", "a-b", "kubernetes2", "sless", longest.as_str()] {
            assert!(good.parse::<FunctionName>().is_ok(), "{good}");
        }
        let (long, longer) = ("a".repeat(49), "a".repeat(80));
        for bad in ["", "kubernetes", "sless-x", "A_b", "1a", "-a", "a-", "a b", "a.b", "ä", &long, &longer] {
            let error = bad.parse::<FunctionName>().unwrap_err().to_string();
            assert!(error.contains("at most 48 characters"), "{bad}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_a_dns_label(text in "\\PC{0,60}") {
            if let Ok(name) = text.parse::<FunctionName>() {
                let s = name.as_str();
                prop_assert_eq!(s, text.as_str());
                prop_assert!(!s.is_empty() && s.len() <= 48 && s.is_ascii());
                prop_assert!(s.starts_with(|c: char| c.is_ascii_lowercase()) && !s.ends_with('-'));
            }
        }

        #[test]
        fn every_label_but_the_reserved_parses(text in "[a-z]([a-z0-9-]{0,40}[a-z0-9])?") {
            prop_assume!(text != "kubernetes" && !text.starts_with("sless-"));
            prop_assert_eq!(text.parse::<FunctionName>().map(String::from), Ok(text));
        }
    }
}
