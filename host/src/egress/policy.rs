//! Which addresses a function may connect to.
//!
//! Judged is the address that is then dialled, in its canonical form: an IPv4 address inside an IPv6 one (mapped, NAT64,
//! 6to4) is judged as itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sless_core::function::{EgressRule, EgressTarget};

/// The rules of one function.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    rules: Vec<EgressRule>,
    /// Whether the list was empty: then every public address is open.
    open: bool,
}

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    address: IpAddr,
    port: u16,
    kind: Option<&'static str>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, port, kind } = self;
        match kind {
            Some(kind) => write!(f, "{address} port {port} is {kind}; to allow it add `{address}` to egress.allow"),
            None => write!(f, "{address} port {port} is not among what egress.allow names"),
        }
    }
}

impl Policy {
    /// The policy of a list. A rule that can't be read allows nothing; specs with one are refused when they are made.
    pub(crate) fn new(allow: &[String]) -> Self {
        Self { rules: allow.iter().filter_map(|rule| rule.parse().ok()).collect(), open: allow.is_empty() }
    }

    /// Whether a connection to `address`, found under `host` (lower-case, without a trailing dot), is allowed.
    pub(crate) fn check(&self, host: &str, address: IpAddr, port: u16) -> Result<(), Refused> {
        let address = canonical(address);
        let kind = special(address);
        let allowed = (kind.is_none() && self.open)
            || self.rules.iter().any(|rule| {
                rule.port.is_none_or(|only| only == port)
                    && match &rule.target {
                        // A private address has to be named as such: a name's owner could let it point anywhere.
                        EgressTarget::Public => kind.is_none(),
                        EgressTarget::Host(name) => kind.is_none() && name == host,
                        EgressTarget::Network(network) => contains(network, address),
                    }
            });
        if allowed { Ok(()) } else { Err(Refused { address, port, kind }) }
    }
}

fn contains(network: &IpNet, address: IpAddr) -> bool {
    // The rule may be written in another form than the canonical one.
    let canonical_network = match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match canonical(IpAddr::V6(v6.addr())) {
            IpAddr::V4(v4) => ipnet::Ipv4Net::new(v4, v6.prefix_len() - 96).ok().map(IpNet::V4),
            IpAddr::V6(_) => None,
        },
        _ => None,
    };
    network.contains(&address) || canonical_network.is_some_and(|network| network.contains(&address))
}

/// The address that is really reached: IPv4 inside IPv6 is taken out.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let s = v6.segments();
    let low = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // ::ffff:0:0/96 (RFC 4291), ::ffff:0:0:0/96 (RFC 2765), and ::/96 but :: and ::1 (RFC 4291, obsolete).
        [0, 0, 0, 0, 0, 0xffff, high, last] | [0, 0, 0, 0, 0xffff, 0, high, last] => low(high, last),
        [0, 0, 0, 0, 0, 0, high, last] if v6 != Ipv6Addr::UNSPECIFIED && v6 != Ipv6Addr::LOCALHOST => low(high, last),
        // NAT64: 64:ff9b::/96 (RFC 6052) and 64:ff9b:1::/48 (RFC 8215; used with 96 bits).
        [0x64, 0xff9b, 0, 0, 0, 0, high, last] | [0x64, 0xff9b, 1, _, _, _, high, last] => low(high, last),
        // 6to4: 2002::/16 (RFC 3056).
        [0x2002, high, last, ..] => low(high, last),
        _ => address,
    }
}

/// What kind of address it is, if not a public one. After the IANA special-purpose registries (RFC 6890).
fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "of this network",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (100, 64..=127, _) => "an address of a carrier or cluster network",
        (127, ..) => "a loopback address",
        (169, 254, _) => "a link-local or metadata address",
        (192, 0, 0) => "a protocol address",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "a documentation address",
        (192, 88, 99) => "a relay address",
        (198, 18..=19, _) => "a benchmarking address",
        (224..=239, ..) => "a multicast address",
        (240..=255, ..) => "a reserved address",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let s = address.segments();
    Some(match s[0] {
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.is_loopback() => "a loopback address",
        0xfc00..=0xfdff => "a private address",
        0xfe80..=0xfebf => "a link-local address",
        0xfec0..=0xfeff => "a site-local address",
        0xff00..=0xffff => "a multicast address",
        0x0100 if s[1..4] == [0, 0, 0] => "a discard address",
        // 2001::/23 are protocols, Teredo among them, which carries an IPv4 address to dial.
        0x2001 if s[1] < 0x200 => "a protocol address",
        0x2001 if s[1] == 0xdb8 => "a documentation address",
        0x3fff if s[1] < 0x1000 => "a documentation address",
        0x5f00 => "a segment-routing address",
        // Only 2000::/3 is given out.
        0x2000..=0x3fff => return None,
        _ => "a reserved address",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow: &[&str], host: &str, address: &str, port: u16) -> bool {
        let allow: Vec<_> = allow.iter().map(|rule| (*rule).to_owned()).collect();
        Policy::new(&allow).check(host, address.parse().unwrap(), port).is_ok()
    }

    #[test]
    fn public_addresses_are_open_and_all_others_are_not() {
        for public in ["1.1.1.1", "93.184.215.14", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(check(&[], "x", public, 443), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::10.0.0.1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2001:0:1::1",
            "2001:db8::1",
            "100::1",
            "4000::1",
        ] {
            assert!(!check(&[], "x", special, 443), "{special}");
            assert!(!check(&["*", "x"], "x", special, 443), "{special} by a rule for public addresses");
        }
    }

    #[test]
    fn a_list_narrows_public_addresses_to_what_it_names() {
        let list = ["example.org:443", "9.9.9.0/24"];
        assert!(check(&list, "example.org", "1.1.1.1", 443));
        assert!(!check(&list, "example.org", "1.1.1.1", 80), "another port");
        assert!(!check(&list, "evil.example.org", "1.1.1.1", 443), "a name below");
        assert!(!check(&list, "example.com", "1.1.1.1", 443));
        assert!(check(&list, "anything", "9.9.9.9", 80));
        assert!(check(&["*:443"], "anything", "1.1.1.1", 443));
        assert!(!check(&["*:443"], "anything", "1.1.1.1", 80));
        assert!(!check(&["not a rule"], "x", "1.1.1.1", 443), "a list of nothing readable is not an empty list");
    }

    #[test]
    fn private_addresses_are_allowed_by_address_or_network_only() {
        assert!(!check(&["db.internal"], "db.internal", "10.0.0.5", 5432));
        assert!(check(&["db.internal", "10.0.0.0/8:5432"], "db.internal", "10.0.0.5", 5432));
        assert!(!check(&["10.0.0.0/8:5432"], "x", "10.0.0.5", 22));
        assert!(check(&["127.0.0.1"], "localhost", "127.0.0.1", 80));
        assert!(check(&["127.0.0.1"], "localhost", "::ffff:127.0.0.1", 80), "the same address in another form");
        assert!(check(&["::ffff:127.0.0.1"], "localhost", "127.0.0.1", 80), "a rule in another form");
        assert!(!check(&["127.0.0.1"], "localhost", "::1", 80));
        assert!(check(&["::1"], "localhost", "::1", 80));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = Policy::new(&[]).check("x", "::ffff:10.0.0.1".parse().unwrap(), 80).unwrap_err().to_string();
        assert_eq!(refused, "10.0.0.1 port 80 is a private address; to allow it add `10.0.0.1` to egress.allow");
    }
}
