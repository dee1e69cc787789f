//! `sless invoke`.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sless_client::{Client, InvokeRequest};
use sless_core::function::MAX_BODY_BYTES;

use super::given;
use crate::args::InvokeArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(crate) async fn run(args: InvokeArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    if !args.path.starts_with('/') {
        return Err(Failure::new(Exit::Usage, format!("--path `{}` does not begin with /", args.path)));
    }
    let body = match &args.body {
        Some(body) => given(body, MAX_BODY_BYTES).await?,
        None => Vec::new(),
    };
    let request = InvokeRequest {
        method: method(args.method.as_deref(), args.body.is_some())?,
        path: args.path,
        headers: headers(&args.header)?,
        body: body.into(),
    };
    let mut answer = client.invoke(args.name.as_str(), request).await?;
    let status = answer.status;
    // The platform's own answers, and the API's refusals, are failures of the command; the function's are its output.
    if answer.outcome().is_some_and(|outcome| outcome != "ok") || answer.is_refusal() {
        return Err(answer.into_problem(client).await.into());
    }
    if args.include {
        let mut head = format!("HTTP {status}\n");
        for (name, value) in &answer.headers {
            head += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
        }
        out.text(&format!("{head}\n"))?;
    }
    while let Some(piece) = answer.piece().await? {
        out.bytes(&piece)?;
    }
    if status.is_client_error() || status.is_server_error() {
        return Err(Failure::new(Exit::Failure, format!("the function answered with {status}")));
    }
    Ok(())
}

pub(crate) fn method(given: Option<&str>, with_body: bool) -> Result<Method, Failure> {
    let name = given.unwrap_or(if with_body { "POST" } else { "GET" });
    name.parse().map_err(|_| Failure::new(Exit::Usage, format!("`{name}` is no HTTP method")))
}

pub(crate) fn headers(given: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let usage = |what: &str| Failure::new(Exit::Usage, format!("the header `{name}: {value}` has no valid {what}"));
        let parsed: HeaderName = name.parse().map_err(|_| usage("name"))?;
        headers.append(parsed, HeaderValue::from_str(value).map_err(|_| usage("value"))?);
    }
    Ok(headers)
}
