//! Who a thing belongs to. A [`Tenant`] is derived from the subject of a token and from nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What functions namespaces begin with.
pub const NAMESPACE_PREFIX: &str = "sless-";

/// A tenant: the first 8 bytes of SHA-256 of the token's `sub`, shown as 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant([u8; 8]);

impl Tenant {
    /// The tenant of a subject.
    ///
    /// ```
    /// let tenant = sless_core::Tenant::from_subject("0199e325-1cdf-7cda-9319-e5302a85e291");
    /// assert_eq!(tenant.to_string(), "cdd874dfa31ba6ca");
    /// ```
    pub fn from_subject(subject: &str) -> Self {
        let hash = Sha256::digest(subject.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        Self(id)
    }

    /// The tenant's functions namespace, `sless-{tenant}`.
    pub fn namespace(self) -> Namespace {
        Namespace(self)
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 16];
        hex::encode_to_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a namespace is `sless-` and the 16 hex digits of a tenant")]
pub struct InvalidNamespace;

/// A tenant's functions namespace, `sless-{tenant}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(Tenant);

impl Namespace {
    /// Whose namespace it is.
    pub fn tenant(self) -> Tenant {
        self.0
    }
}

impl FromStr for Namespace {
    type Err = InvalidNamespace;
    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        let digits = text.strip_prefix(NAMESPACE_PREFIX).ok_or(InvalidNamespace)?;
        if digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(InvalidNamespace);
        }
        let mut id = [0; 8];
        hex::decode_to_slice(digits, &mut id).map_err(|_| InvalidNamespace)?;
        Ok(Self(Tenant(id)))
    }
}

impl TryFrom<String> for Namespace {
    type Error = InvalidNamespace;
    fn try_from(text: String) -> Result<Self, InvalidNamespace> {
        text.parse()
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> String {
        namespace.to_string()
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAMESPACE_PREFIX}{}", self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl utoipa::PartialSchema for Namespace {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("`sless-` and the 16 hex digits of the tenant"))
            .pattern(Some("^sless-[0-9a-f]{16}$"))
            .into()
    }
}
impl utoipa::ToSchema for Namespace {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_canonical_text_is_a_namespace() {
        assert!("sless-cdd874dfa31ba6ca".parse::<Namespace>().is_ok());
        for bad in [
            "cdd874dfa31ba6ca",
            "sless-CDD874dfa31ba6ca",
            "sless-cdd874dfa31ba6c",
            "sless-",
            "sless-cdd874dfa31ba6caa",
            "iot-cdd874dfa31ba6ca",
        ] {
            assert_eq!(bad.parse::<Namespace>(), Err(InvalidNamespace), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_namespace_reads_back(subject in "\\PC{1,80}") {
            let namespace = Tenant::from_subject(&subject).namespace();
            prop_assert_eq!(namespace.to_string().parse::<Namespace>(), Ok(namespace));
        }
    }
}
