//! A typed client of `/v1`, for the command line and for tests.
//!
//! It speaks core's own types, turns `problem+json` into [`Problem`], and tries idempotent requests again where the
//! platform asks for it. It does not follow redirects, so that a token never goes to another server than the one named.

mod calls;
mod error;
mod logs;
mod send;
#[cfg(test)]
mod tests;
mod tls;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sless_core::Namespace;
use sless_core::auth::unverified_subject;
use sless_core::tenant::Tenant;

pub use calls::{Accepted, MAX_LISTED};
pub use error::{Error, Problem};
pub use logs::{LogLines, LogRequest};
pub use reqwest::Method;
pub use send::{Invocation, InvokeRequest};
pub use upload::Progress;

/// How long a connection may take: far more than a round trip on any network that works.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may be silent. Heartbeats of logs come every 15 s; functions run for up to 900 s.
const READ_TIMEOUT: Duration = Duration::from_secs(920);

/// Where the API is, and as whom to speak to it.
#[derive(Clone)]
pub struct Config {
    /// `http://127.0.0.1:9090`; a path is kept as a prefix.
    pub endpoint: String,
    /// The bearer token.
    pub token: String,
    /// Whose functions; by default those of the token's `sub`.
    pub namespace: Option<Namespace>,
}

/// A client of one namespace. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    base: Url,
    namespace: Namespace,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Client");
        shown.field("endpoint", &self.endpoint()).field("namespace", &self.0.namespace).finish_non_exhaustive()
    }
}

impl Client {
    /// A client. Nothing is sent yet; an error names the setting at fault.
    pub fn new(config: Config) -> Result<Self, Error> {
        let base = parse_endpoint(&config.endpoint)?;
        let namespace = match config.namespace {
            Some(namespace) => namespace,
            None => Tenant::from_subject(&unverified_subject(&config.token).map_err(Error::InvalidToken)?).namespace(),
        };
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", config.token))
            .map_err(|_| Error::InvalidToken(sless_core::auth::AuthError::NotBearer))?;
        bearer.set_sensitive(true);
        let http = reqwest::Client::builder()
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            .user_agent(concat!("sless/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(tls::config(base.scheme() == "https"))
            .build()
            .map_err(Error::transport("make an HTTP client"))?;
        Ok(Self(Arc::new(Inner { http, base, namespace })))
    }

    /// Whose functions it speaks of.
    pub fn namespace(&self) -> Namespace {
        self.0.namespace
    }

    /// Where the API is.
    pub fn endpoint(&self) -> &str {
        self.0.base.as_str().trim_end_matches('/')
    }
}

fn parse_endpoint(text: &str) -> Result<Url, Error> {
    let invalid = |reason: &str| Error::InvalidEndpoint { endpoint: text.to_owned(), reason: reason.to_owned() };
    let mut url = Url::parse(text).map_err(|e| invalid(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("it must begin with http:// or https:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("it must have no user, password, query or fragment"));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}
