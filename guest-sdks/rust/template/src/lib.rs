//! {{name}}: greets whom the query names.

use serde::Serialize;
use sless::prelude::*;

sless::serve!(handler);

#[derive(Debug, Serialize)]
struct Greeting {
    message: String,
}

/// An error that is returned becomes a problem document: a `Problem` with its own status, any other with 500.
pub async fn handler(request: Request) -> Result<Response> {
    let name = request.query("name").unwrap_or("world".into());
    if name.is_empty() {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "`name` is empty; leave it out or give one").into());
    }
    log::info!(path = request.path(); "greeting {name}");
    Response::from_json(&Greeting { message: format!("hello, {name}") })
}

#[cfg(test)]
mod tests {
    use sless::testing::{call, get};

    use super::handler;

    #[test]
    fn it_greets_whom_the_query_names() {
        let answer = call(handler, get("/?name=Ada"));
        assert_eq!((answer.status, answer.text()), (200, r#"{"message":"hello, Ada"}"#));
        assert_eq!(call(handler, get("/")).text(), r#"{"message":"hello, world"}"#);
    }

    #[test]
    fn an_empty_name_is_refused() {
        assert_eq!(call(handler, get("/?name=")).status, 400);
    }
}
