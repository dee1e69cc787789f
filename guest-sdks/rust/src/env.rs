//! Settings: environment variables out of `env` and, for secrets, `secretRefs` of `sless.toml`.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::anyhow;

use crate::Result;

/// A variable that has to be there.
pub fn required(name: &str) -> Result<String> {
    optional(name)?.ok_or_else(|| anyhow!("{name} is not set; give it in [env] or [secretRefs] of sless.toml"))
}

/// A variable that may be absent. An error is one that is not UTF-8.
pub fn optional(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(anyhow!("{name} is not UTF-8")),
    }
}

/// A variable as a number, a URL or whatever else is read from text; `default` where it is absent.
pub fn parsed<T: FromStr<Err: Display>>(name: &str, default: T) -> Result<T> {
    match optional(name)? {
        Some(text) => text.parse().map_err(|error| anyhow!("{name} is `{text}`: {error}")),
        None => Ok(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_named_with_the_remedy() {
        let error = required("SURELY_NOT_SET").unwrap_err().to_string();
        assert!(error.contains("SURELY_NOT_SET") && error.contains("secretRefs"), "{error}");
        assert_eq!(parsed("SURELY_NOT_SET", 7).unwrap(), 7);
        // Cargo sets it for tests; it is no number.
        let error = parsed("CARGO_PKG_NAME", 7).unwrap_err().to_string();
        assert!(error.contains("CARGO_PKG_NAME is `sless`"), "{error}");
    }
}
