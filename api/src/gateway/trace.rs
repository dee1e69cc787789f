//! W3C Trace Context (level 1): every call is a span of its own below the caller's.

use http::{HeaderMap, HeaderName, HeaderValue};
use sless_core::InvocationId;

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// `00-{32 hex}-{16 hex}-{2 hex}`.
const LENGTH: usize = 55;

/// Puts this call's span into the headers. A valid `traceparent` keeps its trace and its sampling; else a trace begins
/// here, whose id is the call's own, so that either finds the other. It is marked as sampled: the invocation log has it.
pub(super) fn propagate(headers: &mut HeaderMap, id: InvocationId) {
    let mut values = headers.get_all(&TRACEPARENT).iter();
    let parent = match (values.next(), values.next()) {
        (Some(one), None) => parse(one.as_bytes()),
        _ => None,
    };
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-01";
    match parent {
        Some((trace, sampled)) => {
            text[3..35].copy_from_slice(&trace);
            text[54] = if sampled { b'1' } else { b'0' };
        }
        None => {
            hex(id.0.as_bytes(), &mut text[3..35]);
            // Without a parent it belongs to nothing.
            headers.remove(&TRACESTATE);
        }
    }
    hex(&span_of(id), &mut text[36..52]);
    let value = HeaderValue::from_bytes(&text).expect("hex digits and hyphens are a header value");
    headers.insert(TRACEPARENT, value);
}

fn hex(bytes: &[u8], to: &mut [u8]) {
    hex::encode_to_slice(bytes, to).expect("the slices are cut to twice the bytes");
}

/// A span id that differs for each call: the random half of its id, mixed (splitmix64's finaliser, a bijection) so that
/// it does not repeat digits of the trace id. Zero, which is no span id, becomes one.
fn span_of(id: InvocationId) -> [u8; 8] {
    let (_, low) = id.0.as_u64_pair();
    let mut z = low.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).max(1).to_be_bytes()
}

/// The trace id, as text, and whether it is sampled. None where it is not valid (W3C Trace Context, section 3.2.2).
fn parse(value: &[u8]) -> Option<([u8; 32], bool)> {
    let digits = |range: std::ops::Range<usize>| {
        let part = value.get(range)?;
        part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).then_some(part)
    };
    let version = digits(0..2)?;
    let trace = digits(3..35)?;
    let parent = digits(36..52)?;
    let flags = digits(53..55)?;
    let hyphens = [2, 35, 52].iter().all(|&at| value[at] == b'-');
    // Later versions may add fields; version 0 has none, and ff is forbidden.
    let length = value.len() == LENGTH || (version != b"00" && value[LENGTH] == b'-');
    let zero = |part: &[u8]| part.iter().all(|b| *b == b'0');
    if !hyphens || !length || version == b"ff" || zero(trace) || zero(parent) {
        return None;
    }
    let mut id = [0; 32];
    id.copy_from_slice(trace);
    let mut last = [0];
    hex::decode_to_slice(flags, &mut last).ok()?;
    Some((id, last[0] & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn propagated(sent: &[&str]) -> (String, bool, InvocationId) {
        let mut headers = HeaderMap::new();
        headers.insert(TRACESTATE, HeaderValue::from_static("a=b"));
        for value in sent {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        let id = InvocationId::now();
        propagate(&mut headers, id);
        assert_eq!(headers.get_all(TRACEPARENT).iter().count(), 1);
        (headers[TRACEPARENT].to_str().unwrap().to_owned(), headers.contains_key(TRACESTATE), id)
    }

    #[test]
    fn a_valid_parent_keeps_its_trace_and_gets_a_new_span() {
        for (flags, out) in [("01", "01"), ("00", "00"), ("ff", "01")] {
            let sent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            let (value, state, _) = propagated(&[&sent]);
            assert!(value.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{value}");
            assert!(!value.contains("00f067aa0ba902b7") && value.ends_with(&format!("-{out}")), "{value}");
            assert!(state);
        }
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings";
        assert!(propagated(&[later]).0.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    }

    #[test]
    fn without_a_valid_parent_a_trace_begins() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let bad: &[&[&str]] = &[
            &[],
            &[good, good],
            &[""],
            &["00"],
            &["ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &["00-00000000000000000000000000000000-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"],
            &["00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"],
            &["00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &["cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x"],
        ];
        for sent in bad {
            let (value, state, id) = propagated(sent);
            assert!(
                value.starts_with(&format!("00-{}-", id.0.simple())) && value.ends_with("-01"),
                "{sent:?} → {value}"
            );
            assert!(parse(value.as_bytes()).is_some());
            assert!(!state, "{sent:?}");
        }
    }
}
