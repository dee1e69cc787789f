//! Headers on their way through: what ends at this hop is removed (RFC 9110, section 7.6.1), what is the platform's to
//! say can't come from a client, and what the function should know of the way here is added.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CONNECTION, COOKIE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use sless_core::InvocationId;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The id of the call's row, in every answer of a function.
pub(crate) const X_INVOCATION_ID: HeaderName = HeaderName::from_static("x-sless-invocation-id");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The most bytes of all header names and values of a call. Servers behind take 8 to 64 KiB; more than that is a
/// mistake or an attack, and hosts copy headers into the function's memory.
pub(super) const MAX_HEADER_BYTES: usize = 64 << 10;
/// The longest `X-Request-Id` that is kept: it goes into every row and log line of the call.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Who connected: made once a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Its address as `X-Forwarded-For` has it.
    address: HeaderValue,
    /// Whether its forwarding headers are believed.
    trusted: bool,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, trusted_proxies: &[ipnet::IpNet]) -> Self {
        let address = address.to_canonical();
        let text = HeaderValue::from_maybe_shared(Bytes::from(address.to_string()));
        Self {
            address: text.expect("an address is letters, digits, dots and colons"),
            trusted: trusted_proxies.iter().any(|network| network.contains(&address)),
        }
    }

    /// Where there is no connection to ask (RFC 7239, section 6.2).
    pub(crate) fn unknown() -> Self {
        Self { address: HeaderValue::from_static("unknown"), trusted: false }
    }
}

/// The headers of a request are larger than the platform passes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Makes a request's headers those that the function shall see. `prefix` is what was cut off its path.
pub(super) fn of_request(headers: &mut HeaderMap, peer: &Peer, uri: &Uri, prefix: &str) -> Result<(), TooLarge> {
    remove_named_by_connection(headers);
    remove_where(headers, |name| {
        is_hop_by_hop(name) || name.starts_with("x-sless-") || (!peer.trusted && tells_the_way(name))
    });
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MAX_HEADER_BYTES {
        return Err(TooLarge);
    }
    join_cookies(headers);
    if !headers.contains_key(HOST)
        && let Some(authority) = uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        // HTTP/2 has the host in `:authority` (RFC 9113, section 8.3.1).
        headers.insert(HOST, host);
    }
    forward(headers, peer, prefix);
    Ok(())
}

/// Makes a response's headers those that the client shall see.
pub(super) fn of_response(headers: &mut HeaderMap) {
    remove_named_by_connection(headers);
    remove_where(headers, |name| is_hop_by_hop(name) || name.starts_with("x-sless-"));
}

fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

/// What a proxy says of the way here, and anyone could make up.
fn tells_the_way(name: &str) -> bool {
    name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip")
}

fn remove_where(headers: &mut HeaderMap, unwanted: impl Fn(&str) -> bool) {
    // Does not allocate in the common case, where there is nothing to remove.
    let names: Vec<HeaderName> = headers.keys().filter(|name| unwanted(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn remove_named_by_connection(headers: &mut HeaderMap) {
    let Some(first) = headers.get(CONNECTION) else { return };
    let usual = first.as_bytes().eq_ignore_ascii_case(b"close") || first.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    if usual && headers.get_all(CONNECTION).iter().nth(1).is_none() {
        return;
    }
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// HTTP/2 clients may split cookies; handlers expect one field (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if let (Some(_), Some(_)) = (cookies.next(), cookies.next()) {
        let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
            headers.insert(COOKIE, joined);
        }
    }
}

fn forward(headers: &mut HeaderMap, peer: &Peer, prefix: &str) {
    let earlier = |headers: &HeaderMap, name: &HeaderName| -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        (!all.is_empty()).then(|| all.join(&b", "[..]))
    };
    let way = match peer.trusted.then(|| earlier(headers, &X_FORWARDED_FOR)).flatten() {
        Some(way) => HeaderValue::from_bytes(&[&way, b", ".as_slice(), peer.address.as_bytes()].concat()).ok(),
        None => None,
    };
    headers.insert(X_FORWARDED_FOR, way.unwrap_or_else(|| peer.address.clone()));
    if !(peer.trusted && headers.contains_key(X_FORWARDED_PROTO)) {
        // TLS ends at the ingress, which then is a trusted proxy and says `https`.
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    if !(peer.trusted && headers.contains_key(X_FORWARDED_HOST))
        && let Some(host) = headers.get(HOST).cloned()
    {
        headers.insert(X_FORWARDED_HOST, host);
    }
    if prefix.is_empty() {
        return;
    }
    let before = peer.trusted.then(|| headers.get(X_FORWARDED_PREFIX).cloned()).flatten();
    let prefix = match before {
        Some(before) => HeaderValue::from_bytes(&[before.as_bytes(), prefix.as_bytes()].concat()),
        None => HeaderValue::from_str(prefix),
    };
    if let Ok(prefix) = prefix {
        headers.insert(X_FORWARDED_PREFIX, prefix);
    }
}

/// The ids that a call is known by.
pub(crate) struct RequestId {
    /// What goes into `X-Request-Id`: the client's own if it is fit for a log, else the call's.
    pub(crate) value: HeaderValue,
    /// Whether it is the client's own.
    pub(crate) from_client: bool,
}

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap, id: InvocationId) -> Self {
        match headers.get(X_REQUEST_ID) {
            Some(value) if is_fit_for_a_log(value.as_bytes()) => Self { value: value.clone(), from_client: true },
            _ => Self { value: id_value(id), from_client: false },
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.value.to_str().unwrap_or_default()
    }
}

/// An id as a header value.
pub(crate) fn id_value(id: InvocationId) -> HeaderValue {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    HeaderValue::from_str(id.0.hyphenated().encode_lower(&mut text)).expect("hex digits and hyphens are a header value")
}

fn is_fit_for_a_log(id: &[u8]) -> bool {
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.iter().all(|b| (b' '..=b'~').contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn passed(sent: &[(&'static str, &'static str)], trusted: &str) -> Vec<(String, String)> {
        let peer = Peer::new("192.0.2.7".parse().unwrap(), &[trusted.parse().unwrap()]);
        let mut map = headers(sent);
        of_request(&mut map, &peer, &Uri::from_static("/fn/ns/f/"), "/fn/ns/f").unwrap();
        let mut all: Vec<_> =
            map.iter().map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned())).collect();
        all.sort();
        all
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    #[test]
    fn what_is_of_this_hop_or_the_platforms_stays_behind() {
        let sent = [
            ("host", "a.example"),
            ("connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "x"),
            ("x-sless-key", "secret"),
            ("x-sless-function", "other"),
            ("x-sless-outcome", "ok"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-port", "1"),
            ("forwarded", "for=6.6.6.6"),
            ("x-real-ip", "6.6.6.6"),
            ("authorization", "Basic eA=="),
            ("accept", "*/*"),
        ];
        let expected = [
            ("accept", "*/*"),
            ("authorization", "Basic eA=="),
            ("host", "a.example"),
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-host", "a.example"),
            ("x-forwarded-prefix", "/fn/ns/f"),
            ("x-forwarded-proto", "http"),
        ];
        assert_eq!(passed(&sent, "10.0.0.0/8"), owned(&expected));
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_added_to() {
        let sent = [
            ("host", "inner"),
            ("x-forwarded-for", "198.51.100.1, 10.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "a.example"),
            ("x-forwarded-prefix", "/api"),
        ];
        let expected = [
            ("host", "inner"),
            ("x-forwarded-for", "198.51.100.1, 10.1.1.1, 192.0.2.7"),
            ("x-forwarded-host", "a.example"),
            ("x-forwarded-prefix", "/api/fn/ns/f"),
            ("x-forwarded-proto", "https"),
        ];
        assert_eq!(passed(&sent, "192.0.2.0/24"), owned(&expected));
    }

    #[test]
    fn an_ipv4_peer_on_an_ipv6_socket_is_an_ipv4_peer() {
        let peer = Peer::new("::ffff:192.0.2.7".parse().unwrap(), &["192.0.2.0/24".parse().unwrap()]);
        assert_eq!((peer.address.to_str().unwrap(), peer.trusted), ("192.0.2.7", true));
    }

    #[test]
    fn http2_hosts_and_cookies_become_what_handlers_expect() {
        let peer = Peer::new("192.0.2.7".parse().unwrap(), &[]);
        let mut map = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        of_request(&mut map, &peer, &Uri::from_static("http://a.example:8080/fn/ns/f"), "/fn/ns/f").unwrap();
        assert_eq!(map["cookie"], "a=1; b=2");
        assert_eq!(map["host"], "a.example:8080");
        assert_eq!(map["x-forwarded-host"], "a.example:8080");
    }

    #[test]
    fn many_and_large_headers_pass_up_to_the_limit() {
        let peer = Peer::new("192.0.2.7".parse().unwrap(), &[]);
        let mut map = HeaderMap::new();
        for index in 0..100 {
            map.insert(HeaderName::from_bytes(format!("x-{index}").as_bytes()).unwrap(), HeaderValue::from_static("v"));
        }
        map.insert("x-large", HeaderValue::from_bytes(&[b'a'; 7 << 10]).unwrap());
        map.insert("x-latin", HeaderValue::from_bytes(&[0x80, 0xff]).unwrap());
        of_request(&mut map, &peer, &Uri::from_static("/"), "/fn/ns/f").unwrap();
        assert_eq!(map.keys().filter(|n| n.as_str().starts_with("x-") && !n.as_str().starts_with("x-f")).count(), 102);
        assert_eq!(map["x-latin"].as_bytes(), [0x80, 0xff]);
        map.insert("x-larger", HeaderValue::from_bytes(&vec![b'a'; 60 << 10]).unwrap());
        assert_eq!(of_request(&mut map, &peer, &Uri::from_static("/"), "/fn/ns/f"), Err(TooLarge));
    }

    #[test]
    fn a_response_can_not_speak_for_the_platform() {
        let mut map = headers(&[
            ("connection", "close"),
            ("x-sless-outcome", "rate_limited"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("upgrade", "h2c"),
        ]);
        of_response(&mut map);
        assert_eq!(map.len(), 2);
        assert_eq!(map.get_all("set-cookie").iter().count(), 2);
    }

    #[test]
    fn a_clients_request_id_is_kept_if_it_is_fit_for_a_log() {
        let id = InvocationId::now();
        let longest = "x".repeat(128);
        for good in ["a", "req 1/2", longest.as_str()] {
            let mut map = HeaderMap::new();
            map.insert(X_REQUEST_ID, good.parse().unwrap());
            let kept = RequestId::of(&map, id);
            assert_eq!((kept.as_str(), kept.from_client), (good, true));
        }
        for bad in [&b""[..], b"a\tb", b"\xc3\xa4", &[b'x'; 129]] {
            let mut map = HeaderMap::new();
            map.insert(X_REQUEST_ID, HeaderValue::from_bytes(bad).unwrap());
            let ours = RequestId::of(&map, id);
            assert_eq!((ours.as_str(), ours.from_client), (id.to_string().as_str(), false));
        }
    }
}
