//! URLs by the crate `url`, which is the WHATWG parser of Firefox's authors; the classes around it are in `js/url.js`.

use rquickjs_core::{Array, Ctx, Result};
use url::{Url, quirks};

/// `[href, protocol, username, password, host, hostname, port, pathname, search, hash, origin]`.
fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> Result<Array<'js>> {
    let list = Array::new(ctx.clone())?;
    let origin = quirks::origin(url);
    let parts = [
        quirks::href(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
        &origin,
    ];
    for (index, part) in parts.into_iter().enumerate() {
        list.set(index, part)?;
    }
    Ok(list)
}

/// The parts of a URL; none if it is none.
pub(crate) fn parse<'js>(ctx: Ctx<'js>, input: String, base: Option<String>) -> Result<Option<Array<'js>>> {
    let parsed = match base {
        None => Url::parse(&input),
        Some(base) => Url::parse(&base).and_then(|base| base.join(&input)),
    };
    parsed.ok().map(|url| parts(&ctx, &url)).transpose()
}

/// The parts after one of them was set. What can't be set stays as it was, but for `href`: none then.
pub(crate) fn set<'js>(ctx: Ctx<'js>, href: String, part: String, value: String) -> Result<Option<Array<'js>>> {
    let Ok(mut url) = Url::parse(&href) else { return Ok(None) };
    match part.as_str() {
        "href" => {
            let Ok(new) = Url::parse(&value) else { return Ok(None) };
            url = new;
        }
        "protocol" => {
            let _ = quirks::set_protocol(&mut url, &value);
        }
        "username" => {
            let _ = quirks::set_username(&mut url, &value);
        }
        "password" => {
            let _ = quirks::set_password(&mut url, &value);
        }
        "host" => {
            let _ = quirks::set_host(&mut url, &value);
        }
        "hostname" => {
            let _ = quirks::set_hostname(&mut url, &value);
        }
        "port" => {
            let _ = quirks::set_port(&mut url, &value);
        }
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        "hash" => quirks::set_hash(&mut url, &value),
        _ => {}
    }
    parts(&ctx, &url).map(Some)
}

/// Form encoding: `a=1&b=2` → `[a, 1, b, 2]`.
pub(crate) fn form_parse<'js>(ctx: Ctx<'js>, text: String) -> Result<Array<'js>> {
    let list = Array::new(ctx)?;
    for (index, (name, value)) in url::form_urlencoded::parse(text.as_bytes()).enumerate() {
        list.set(index * 2, name.as_ref())?;
        list.set(index * 2 + 1, value.as_ref())?;
    }
    Ok(list)
}

/// The reverse.
pub(crate) fn form_write(pairs: Vec<String>) -> String {
    let mut out = url::form_urlencoded::Serializer::new(String::new());
    for pair in pairs.chunks_exact(2) {
        out.append_pair(&pair[0], &pair[1]);
    }
    out.finish()
}
