//! The rules that a spec has to keep, each refusal with the field and what would be right.

use super::{EgressRule, FunctionSpec, Runtime};
use crate::problem::FieldError;

/// The most bytes of one environment: names and values together.
pub const MAX_ENV_BYTES: usize = 64 << 10;
/// The most variables of one environment.
pub const MAX_ENV_VARS: usize = 256;
/// The most entries of an egress list.
pub const MAX_EGRESS_RULES: usize = 64;
/// The largest body that a limit may allow.
pub const MAX_BODY_BYTES: u64 = 100 << 20;

impl FunctionSpec {
    /// Everything that is wrong with it, each with a pointer below `base` (such as `/spec`). Empty when all is well.
    pub fn validate(&self, base: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut range = |field: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                errors.push(FieldError::new(
                    format!("{base}/{field}"),
                    format!("{value} is out of range; it must be from {low} to {high}"),
                ));
            }
        };
        range("memoryMb", self.memory_mb.into(), 1, 2048);
        range("timeoutSeconds", self.timeout_seconds.into(), 1, 900);
        range("concurrency", self.concurrency.into(), 1, 10_000);
        range("maxReplicas", self.max_replicas.into(), 1, 100);
        range("minReplicas", self.min_replicas.into(), 0, self.max_replicas.into());
        range("limits/cpuMs", self.limits.cpu_ms.into(), 1, 900_000);
        range("limits/requestBytes", self.limits.request_bytes, 0, MAX_BODY_BYTES);
        range("limits/responseBytes", self.limits.response_bytes, 0, MAX_BODY_BYTES);
        range("limits/logBytes", self.limits.log_bytes.into(), 0, 1 << 20);
        if let Some(rate) = self.limits.rate_per_second {
            range("limits/ratePerSecond", rate.into(), 1, 1_000_000);
        }
        self.validate_environment(base, &mut errors);
        self.validate_egress(base, &mut errors);
        if self.runtime != Runtime::Wasm && self.entrypoint.as_deref().is_some_and(|entry| !is_entrypoint(entry)) {
            errors.push(FieldError::new(
                format!("{base}/entrypoint"),
                "an entry point is `file.export` below the source's folder, such as `handler.handler` or `src/app.main`",
            ));
        }
        if self.runtime == Runtime::Wasm && self.entrypoint.is_some() {
            errors.push(FieldError::new(
                format!("{base}/entrypoint"),
                "a component names its own entry point; leave it out, or choose a runtime that takes source",
            ));
        }
        errors
    }

    fn validate_environment(&self, base: &str, errors: &mut Vec<FieldError>) {
        for (field, names) in
            [("env", self.env.keys().collect::<Vec<_>>()), ("secretRefs", self.secret_refs.keys().collect::<Vec<_>>())]
        {
            for name in names.into_iter().filter(|name| !is_variable_name(name)) {
                errors.push(FieldError::new(
                    format!("{base}/{field}/{}", escape_pointer(name)),
                    "a variable's name has letters, digits and underscores, does not start with a digit, and does not start with SLESS_",
                ));
            }
        }
        for name in self.secret_refs.keys().filter(|name| self.env.contains_key(*name)) {
            errors.push(FieldError::new(
                format!("{base}/secretRefs/{}", escape_pointer(name)),
                "the variable is in env too; keep one of them",
            ));
        }
        for (name, _) in self.env.iter().filter(|(_, value)| value.contains('\0')) {
            errors.push(FieldError::new(format!("{base}/env/{}", escape_pointer(name)), "a value can't hold a NUL"));
        }
        let bytes: usize = self.env.iter().map(|(k, v)| k.len() + v.len()).sum();
        if bytes > MAX_ENV_BYTES || self.env.len() + self.secret_refs.len() > MAX_ENV_VARS {
            errors.push(FieldError::new(
                format!("{base}/env"),
                format!("at most {MAX_ENV_VARS} variables and {MAX_ENV_BYTES} bytes in all"),
            ));
        }
    }

    fn validate_egress(&self, base: &str, errors: &mut Vec<FieldError>) {
        if self.egress.allow.len() > MAX_EGRESS_RULES {
            errors.push(FieldError::new(format!("{base}/egress/allow"), format!("at most {MAX_EGRESS_RULES} entries")));
        }
        for (index, rule) in self.egress.allow.iter().enumerate() {
            if let Err(error) = rule.parse::<EgressRule>() {
                errors.push(FieldError::new(format!("{base}/egress/allow/{index}"), error));
            }
        }
    }
}

/// Escapes a key for a JSON Pointer (RFC 6901, section 3).
pub fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Folders of letters, digits and `_-.`, none of which begins with a dot; then the export, which is an identifier.
fn is_entrypoint(text: &str) -> bool {
    const MAX_ENTRYPOINT_BYTES: usize = 512;
    let Some((file, export)) = text.rsplit_once('.') else { return false };
    let segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    let identifier = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    text.len() <= MAX_ENTRYPOINT_BYTES
        && file.split('/').all(segment)
        && export.starts_with(|c: char| identifier(c) && !c.is_ascii_digit())
        && export.chars().all(identifier)
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with("SLESS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_point_is_a_file_and_an_export() {
        let pointers = |runtime, entrypoint: &str| {
            let spec = FunctionSpec { entrypoint: Some(entrypoint.into()), ..FunctionSpec::new(runtime) };
            spec.validate("").into_iter().map(|e| e.pointer).collect::<Vec<_>>()
        };
        for good in ["handler.handler", "src/app.main", "a.b.c", "a-b/c_d.$x"] {
            assert!(pointers(Runtime::Nodejs20, good).is_empty(), "{good}");
        }
        for bad in ["handler", "", ".x", "x.", "../a.b", "/a.b", "a//b.c", "a.1", "a b.c", "a/.b.c", "a\0.b"] {
            assert_eq!(pointers(Runtime::Python311, bad), ["/entrypoint"], "{bad}");
        }
        assert_eq!(pointers(Runtime::Wasm, "a.b"), ["/entrypoint"]);
    }

    #[test]
    fn each_wrong_field_is_named() {
        let mut spec = FunctionSpec::new(Runtime::Wasm);
        spec.memory_mb = 0;
        spec.timeout_seconds = 901;
        spec.limits.rate_per_second = Some(0);
        spec.env.insert("1A".into(), "x".into());
        spec.env.insert("BOTH".into(), "x".into());
        spec.secret_refs.insert("BOTH".into(), "token".parse().unwrap());
        spec.egress.allow = vec!["example.org:443".into(), "http://x/".into()];
        let pointers: Vec<_> = spec.validate("/spec").into_iter().map(|e| e.pointer).collect();
        assert_eq!(
            pointers,
            [
                "/spec/memoryMb",
                "/spec/timeoutSeconds",
                "/spec/limits/ratePerSecond",
                "/spec/env/1A",
                "/spec/secretRefs/BOTH",
                "/spec/egress/allow/1"
            ]
        );
    }
}
