//! Where a function may connect to: the list its owner sets, and its entries parsed.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a function may connect to. Public addresses are open; anything else has to be named here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Egress {
    /// Each is `host`, `host:port`, `address`, `address:port`, `network/prefix` or `network/prefix:port`. Names allow
    /// only themselves; a private address that a name resolves to must be allowed as an address or network too.
    /// Empty: any public address. Not empty: public addresses only where they are named (`*` stands for all of them).
    pub allow: Vec<String>,
}

/// One entry of an egress list, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    /// What it allows.
    pub target: EgressTarget,
    /// The only port; any when absent.
    pub port: Option<u16>,
}

/// What an egress rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressTarget {
    /// `*`: every public address.
    Public,
    /// A host by its name, lower-case, without a trailing dot.
    Host(String),
    /// A network; a lone address is a network of one.
    Network(ipnet::IpNet),
}

impl FromStr for EgressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let say = || format!("`{text}` is none of host, host:port, address, network/prefix, [address6]:port, *");
        if let Ok(target) = parse_network(text) {
            return Ok(Self { target, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(say)?)),
            None => (text, None),
        };
        if host == "*" {
            return Ok(Self { target: EgressTarget::Public, port });
        }
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(target) = parse_network(bare) {
            return Ok(Self { target, port });
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let label = |l: &str| {
            !l.is_empty() && l.len() <= 63 && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        // A last label of digits would be read as an address by others (RFC 3696, section 2).
        let numeric = name.rsplit('.').next().is_some_and(|l| l.bytes().all(|b| b.is_ascii_digit()));
        if name.len() > 253 || numeric || !name.split('.').all(label) {
            return Err(say());
        }
        Ok(Self { target: EgressTarget::Host(name), port })
    }
}

fn parse_network(text: &str) -> Result<EgressTarget, ()> {
    if let Ok(network) = text.parse::<ipnet::IpNet>() {
        return Ok(EgressTarget::Network(network));
    }
    text.parse::<std::net::IpAddr>().map(|a| EgressTarget::Network(a.into())).map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egress_rules_parse() {
        let host = |h: &str| EgressTarget::Host(h.into());
        let net = |n: &str| EgressTarget::Network(n.parse().unwrap());
        for (text, target, port) in [
            ("Example.ORG.", host("example.org"), None),
            ("example.org:443", host("example.org"), Some(443)),
            ("10.1.2.3", net("10.1.2.3/32"), None),
            ("10.0.0.0/8:80", net("10.0.0.0/8"), Some(80)),
            ("::1", net("::1/128"), None),
            ("[::1]:80", net("::1/128"), Some(80)),
            ("*:443", EgressTarget::Public, Some(443)),
        ] {
            assert_eq!(text.parse(), Ok(EgressRule { target, port }), "{text}");
        }
        for bad in ["", "a..b", "x:0", "x:99999", "http://x", "a b", "127.1", "2130706433"] {
            assert!(bad.parse::<EgressRule>().is_err(), "{bad}");
        }
    }
}
