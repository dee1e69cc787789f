//! What is often asked of a request's head.

use std::borrow::Cow;

use http::Request;

/// The header in which the platform names each request.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// Reading a request's head. All of it is in the request itself: [`Request::method`], [`Request::uri`],
/// [`Request::headers`].
pub trait RequestExt {
    /// The path after the function's name, byte for byte as it was sent: `%2F` stays `%2F`.
    fn path(&self) -> &str;
    /// The first parameter of that name in the query, decoded; `""` where it has no value.
    fn query(&self, name: &str) -> Option<Cow<'_, str>>;
    /// All parameters of the query in order, decoded.
    fn queries(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)>;
    /// The first header of that name, if it is visible ASCII.
    fn header(&self, name: &str) -> Option<&str>;
    /// The request's id, which is in its log lines too; `""` outside of the platform.
    fn id(&self) -> &str;
}

impl<B> RequestExt for Request<B> {
    fn path(&self) -> &str {
        self.uri().path()
    }

    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.queries().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn queries(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        form_urlencoded::parse(self.uri().query().unwrap_or_default().as_bytes())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name).and_then(|value| value.to_str().ok())
    }

    fn id(&self) -> &str {
        self.header(REQUEST_ID).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_a_path_is_not() {
        let request = Request::get("/a%2Fb?x=1&x=2&sum=a%2Bb+c&empty").header("X-Request-Id", "r1").body(()).unwrap();
        assert_eq!(request.path(), "/a%2Fb");
        assert_eq!(request.query("x").unwrap(), "1");
        assert_eq!(request.query("sum").unwrap(), "a+b c");
        assert_eq!(request.query("empty").unwrap(), "");
        assert_eq!(request.query("y"), None);
        assert_eq!(request.queries().count(), 4);
        assert_eq!(request.id(), "r1");
    }
}
