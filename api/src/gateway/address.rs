//! `/fn/{namespace}/{name}…`: who is called, and what of the path and query the function sees. Nothing is decoded,
//! joined or tidied: the rest goes on byte for byte.

use bytes::Bytes;
use http::uri::{PathAndQuery, Uri};
use sless_core::Namespace;

/// What every path of the gateway begins with.
pub(crate) const PREFIX: &str = "/fn/";

/// Whether the gateway answers this path.
pub(crate) fn is_gateway(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// A path taken apart. All parts are slices of the one that was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    /// Whose function. A text that is no namespace names nothing, so there is no address.
    pub(crate) namespace: Namespace,
    /// The function's name, not checked: what is not a name is in no index.
    pub(crate) name: &'a str,
    /// `/fn/{namespace}/{name}`.
    pub(crate) prefix: &'a str,
    /// What comes after the prefix: empty, or begins with `/` or `?`.
    pub(crate) rest: &'a str,
}

impl<'a> Address<'a> {
    /// Takes the path and query of a request apart; none where it has no namespace.
    pub(crate) fn parse(path_and_query: &'a str) -> Option<Self> {
        let after = path_and_query.strip_prefix(PREFIX)?;
        let slash = after.find(['/', '?'])?;
        if after.as_bytes()[slash] == b'?' {
            return None;
        }
        let namespace = after[..slash].parse().ok()?;
        let tail = &after[slash + 1..];
        let end = tail.find(['/', '?']).unwrap_or(tail.len());
        let split = path_and_query.len() - (tail.len() - end);
        let (prefix, rest) = path_and_query.split_at(split);
        Some(Self { namespace, name: &tail[..end], prefix, rest })
    }

    /// The URI that the function sees: `rest`, with the `/` that a path has at least.
    pub(crate) fn uri(&self) -> Result<Uri, http::uri::InvalidUri> {
        let path = match self.rest.as_bytes() {
            [] | [b'/'] => PathAndQuery::from_static("/"),
            [b'?', ..] => PathAndQuery::from_maybe_shared(Bytes::from(["/", self.rest].concat()))?,
            _ => PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(self.rest.as_bytes()))?,
        };
        Ok(Uri::from(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NS: &str = "sless-cdd874dfa31ba6ca";

    fn seen(rest: &str) -> String {
        let path = format!("/fn/{NS}/f{rest}");
        let address = Address::parse(&path).expect("an address");
        assert_eq!((address.namespace, address.name), (NS.parse().unwrap(), "f"), "{path}");
        assert_eq!(address.prefix, format!("/fn/{NS}/f"));
        address.uri().unwrap().to_string()
    }

    #[test]
    fn the_rest_is_kept_byte_for_byte() {
        assert_eq!(seen(""), "/");
        assert_eq!(seen("?"), "/?");
        assert_eq!(seen("?q"), "/?q");
        for same in [
            "/",
            "/a%2Fb?x=1&x=2&y=",
            "//",
            "//a///",
            "/a/../b/./c/",
            "/%00%zz",
            "/fn/x",
            "/a?b?c=/d//",
            "/?",
            "/a;b=c,d",
        ] {
            assert_eq!(seen(same), same);
        }
    }

    #[test]
    fn what_names_no_namespace_has_no_address() {
        for path in [
            "/fn/",
            "/fn",
            "/fn//f",
            "/fn/sless-x/f",
            "/fn/sless-cdd874dfa31ba6ca",
            "/fn/sless-cdd874dfa31ba6ca?/f",
            "/FN/a/b",
        ] {
            assert_eq!(Address::parse(path), None, "{path}");
        }
        let nameless = format!("/fn/{NS}/");
        assert_eq!(Address::parse(&nameless).map(|a| a.name), Some(""));
        // Not decoded: an encoded name is another name, which no function can have.
        let encoded = format!("/fn/{NS}/%66");
        assert_eq!(Address::parse(&encoded).map(|a| a.name), Some("%66"));
    }

    proptest! {
        #[test]
        fn any_uri_passes_unchanged(rest in "/[!-~&&[^#\"<>\\\\^`{|}]]{0,200}") {
            let path = format!("/fn/{NS}/f{rest}");
            // As hyper would have it.
            let uri: Uri = path.parse().unwrap();
            let address = Address::parse(uri.path_and_query().unwrap().as_str()).unwrap();
            prop_assert_eq!(address.uri().unwrap().to_string(), rest);
        }

        #[test]
        fn no_path_is_a_panic(path in "(/fn/)?(sless-cdd874dfa31ba6ca)?\\PC{0,80}") {
            if let Some(address) = Address::parse(&path) {
                prop_assert_eq!([address.prefix, address.rest].concat(), path.as_str());
                let _ = address.uri();
            }
        }
    }
}
