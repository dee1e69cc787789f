//! How requests go out: paths, retries, problems, and the synchronous call of a function.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;

use crate::error::{Error, Problem};
use crate::{Client, Inner};

/// How often a request is sent before its refusal counts: over a restart of the platform, not over an outage.
const TRIES: u32 = 5;
/// The first pause where the platform names none; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause that a `Retry-After` can ask for; beyond it the user is told instead.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The most bytes of an answer that is a document: a page of 500 objects with full environments is below it.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;
const PROBLEM_TYPE: &str = "application/problem+json";
/// How much of an unknown answer an error shows.
const SHOWN_BYTES: usize = 200;

/// What a function is to be called with.
#[derive(Debug, Clone)]
pub struct InvokeRequest {
    /// The method that it sees.
    pub method: Method,
    /// The path and query that it sees; begins with `/`.
    pub path: String,
    /// Headers that it sees.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// A function's answer, its body still under way.
#[derive(Debug)]
pub struct Invocation {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    response: Response,
}

impl Invocation {
    /// The next piece of the body; none at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        self.response.chunk().await.map_err(Error::transport("read the function's answer"))
    }

    /// The word for how the platform itself ended the call, if it did.
    pub fn outcome(&self) -> Option<&str> {
        self.headers.get("x-sless-outcome")?.to_str().ok()
    }

    /// Whether the API refused the call, so that no function was asked.
    pub fn is_refusal(&self) -> bool {
        let problem = self.headers.get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(PROBLEM_TYPE.as_bytes()));
        problem && !self.headers.contains_key("x-sless-invocation-id")
    }

    /// The platform's own answer as an error.
    pub async fn into_problem(self, client: &Client) -> Error {
        client.0.refusal(self.response).await
    }
}

impl Client {
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.0.http.request(method, url)
    }

    /// The URL of `/v1/namespaces/{namespace}/{segments}`.
    pub(crate) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.0.base.clone();
        let namespace = self.0.namespace.to_string();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["v1", "namespaces", &namespace]).extend(segments);
        }
        url
    }

    /// The API's own description, OpenAPI 3.1.
    pub async fn openapi(&self) -> Result<String, Error> {
        let mut url = self.0.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["v1", "openapi.json"]);
        }
        let response = self.send(|| Ok(self.request(Method::GET, url.clone()))).await?;
        Ok(String::from_utf8_lossy(&document(response).await?).into_owned())
    }

    /// Calls a function and returns at the answer's head. Never tried again: the function may have run.
    pub async fn invoke(&self, name: &str, call: InvokeRequest) -> Result<Invocation, Error> {
        let mut url = self.url(&["functions", name, "invoke"]);
        url.query_pairs_mut().append_pair("method", call.method.as_str()).append_pair("path", &call.path);
        let request = self.request(Method::POST, url).headers(call.headers).body(call.body);
        let response = request.send().await.map_err(|e| self.0.unsent("call the function", e))?;
        Ok(Invocation { status: response.status(), headers: response.headers().clone(), response })
    }

    /// Sends an idempotent request, again where the platform is busy; answers with its success.
    pub(crate) async fn send(&self, make: impl Fn() -> Result<RequestBuilder, Error>) -> Result<Response, Error> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            match self.send_once(make()?).await {
                Err(Error::Problem(problem)) if attempt < TRIES && matches!(problem.status, 429 | 503) => {
                    let wait = problem.retry_after.unwrap_or(pause);
                    if wait > LONGEST_PAUSE {
                        return Err(Error::Problem(problem));
                    }
                    tracing::debug!(status = problem.status, attempt, "busy, trying again");
                    tokio::time::sleep(wait).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
        unreachable!("the last attempt returns its answer")
    }

    /// Sends a request once.
    pub(crate) async fn send_once(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|e| self.0.unsent("ask the API", e))?;
        if response.status().is_success() { Ok(response) } else { Err(self.0.refusal(response).await) }
    }

    /// The same, with its answer read.
    pub(crate) async fn fetch<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        make: impl Fn() -> Result<RequestBuilder, Error>,
    ) -> Result<T, Error> {
        read(doing, self.send(make).await?).await
    }
}

impl Inner {
    pub(crate) fn unsent(&self, doing: &'static str, source: reqwest::Error) -> Error {
        if source.is_connect() {
            Error::Unreachable { endpoint: self.base.as_str().trim_end_matches('/').to_owned(), source }
        } else {
            Error::Transport { doing, source }
        }
    }

    pub(crate) async fn refusal(&self, response: Response) -> Error {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (request_id, retry_after) = (header("x-request-id"), header(RETRY_AFTER.as_str()));
        let is_problem = header(CONTENT_TYPE.as_str()).is_some_and(|t| t.starts_with(PROBLEM_TYPE));
        let body = match document(response).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        if is_problem && let Ok(mut problem) = serde_json::from_slice::<Problem>(&body) {
            problem.status = status;
            problem.request_id = problem.request_id.or(request_id);
            // The date form of `Retry-After` is left aside: the platform sends seconds.
            problem.retry_after = retry_after.and_then(|s| s.parse().ok()).map(Duration::from_secs);
            if problem.detail.is_empty() {
                problem.detail = problem.title.clone();
            }
            return Error::Problem(Box::new(problem));
        }
        let body = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).trim().to_owned();
        Error::NotTheApi { endpoint: self.base.as_str().trim_end_matches('/').to_owned(), status, body, request_id }
    }
}

pub(crate) async fn read<T: DeserializeOwned>(doing: &'static str, response: Response) -> Result<T, Error> {
    serde_json::from_slice(&document(response).await?).map_err(|source| Error::Unreadable { doing, source })
}

pub(crate) async fn document(response: Response) -> Result<Bytes, Error> {
    let mut all = BytesMut::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(Error::transport("read the answer"))?;
        // Cut rather than refused: what is cut is no JSON any more and says so.
        let room = MAX_DOCUMENT_BYTES - all.len();
        all.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() >= room {
            break;
        }
    }
    Ok(all.freeze())
}
