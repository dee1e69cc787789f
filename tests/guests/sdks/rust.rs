//! Every part of the library that needs the host, for tests/tests/sdks.rs. The same in each language.

use sless::http;
use sless::prelude::*;

sless::serve!(handler);

async fn handler(mut request: Request) -> Result<Response> {
    match request.path() {
        "/echo" => {
            let kind = request.header("content-type").unwrap_or("application/octet-stream").to_owned();
            let body = request.bytes().await?;
            let mut response = Response::from_bytes(body);
            response.headers_mut().insert("content-type", kind.parse()?);
            Ok(response)
        }
        "/stream" => Ok(Response::new(request.into_body())),
        "/fetch" => {
            let url = request.query("url").context("`url` is missing")?.into_owned();
            let outgoing = http::Request::post(url).header("x-a", "b").body("ping")?;
            let mut answer = fetch(outgoing).await?;
            let seen = answer.headers().get("x-seen").map_or("", |value| value.to_str().unwrap_or("")).to_owned();
            Ok(Response::from_text(format!("{} {seen} {}", answer.status().as_u16(), answer.text().await?)))
        }
        "/env" => Ok(Response::from_text(sless::env::required("GREETING")?)),
        "/cookies" => Response::from_text("")
            .with_status(StatusCode::CREATED)
            .with_header("set-cookie", "a=1")?
            .with_header("set-cookie", "b=2"),
        "/error" => {
            let number: u32 = "x".parse().context("no number")?;
            Ok(Response::from_text(number.to_string()))
        }
        _ => Ok(Response::from_text(format!("{} {}", request.method(), request.uri().path_and_query().unwrap()))),
    }
}
