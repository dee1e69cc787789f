//! Code: in and out, as streams.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ETAG};
use http::{HeaderMap, StatusCode};
use sless_core::ports::{self, ByteStream};
use sless_core::services::UploadKind;
use sless_core::{Code, FunctionName, Problem};

use super::paths::OfFunction;
use super::versions::Deployed;
use crate::App;
use crate::auth::Ns;
use crate::error::{ApiError, ApiResult};
use crate::extract::{self, Expected, Named, Tagged};
use crate::openapi::Binary;

/// How long an upload may pause: longer than networks do, short enough that dead clients don't pile up.
const PAUSE: Duration = Duration::from_secs(60);

/// Upload code
///
/// For runtime `wasm` a WebAssembly component that exports `wasi:http/incoming-handler`; for the others a zip of the
/// source, with the handler's file at its top or in the one folder that has everything. It is stored and checked at once;
/// building goes on behind the answer. The same code again makes no version: the same bytes of a component, the same files
/// of a source, however they were packed.
#[utoipa::path(
    post, path = "/v1/namespaces/{ns}/functions/{name}/upload", tag = "code", operation_id = "upload_code",
    params(OfFunction, ("If-Match" = Option<String>, Header, description = "Only if this is still its state: an ETag, or `*`")),
    request_body(
        description = "The component, or the zip; told apart by its first bytes where the type is application/octet-stream",
        content((Binary = "application/wasm"), (Binary = "application/zip"), (Binary = "application/octet-stream")),
    ),
    responses((status = 202, description = "Stored; it is being built", body = Deployed, headers(("ETag" = String, description = "The function's state")))),
)]
pub(crate) async fn upload(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    expected: Expected,
    request: Request,
) -> ApiResult<impl IntoResponse> {
    let declared = declared(request.headers())?;
    let mut body = pieces(request.into_body());
    let kind = match declared {
        Some(kind) => kind,
        None => sniffed(&mut body).await?,
    };
    let uploaded = app.services.functions.upload(ns, &name, expected.version()?, kind, body).await;
    let deployed: Tagged<Deployed> = uploaded.map_err(|problem| expected.refused(problem))?.into();
    Ok((StatusCode::ACCEPTED, deployed))
}

/// What the `Content-Type` says it is; none where its bytes have to say it.
fn declared(headers: &HeaderMap) -> ApiResult<Option<UploadKind>> {
    let media = extract::media_type(headers);
    match media.as_str() {
        "application/wasm" => Ok(Some(UploadKind::Component)),
        "application/zip" | "application/x-zip-compressed" => Ok(Some(UploadKind::Archive)),
        "application/octet-stream" => Ok(None),
        _ => {
            let detail = format!(
                "the Content-Type is {}; send a component as application/wasm, or a zip of source as application/zip",
                extract::named(&media)
            );
            Err(ApiError::new(Code::UnsupportedMediaType, detail))
        }
    }
}

/// What the first bytes say it is. They stay in the stream.
async fn sniffed(body: &mut ByteStream) -> ApiResult<UploadKind> {
    /// As long as the magic numbers of both are.
    const MAGIC_BYTES: usize = 4;
    let mut head = BytesMut::new();
    while head.len() < MAGIC_BYTES {
        match body.next().await {
            Some(Ok(piece)) => head.extend_from_slice(&piece),
            Some(Err(error)) => return Err(ApiError::from(Problem::from(error))),
            None => break,
        }
    }
    let kind = match head.get(..MAGIC_BYTES) {
        // A file, an archive without any.
        Some(b"PK\x03\x04" | b"PK\x05\x06") => UploadKind::Archive,
        // Whatever else it is: the check of components says so.
        _ => UploadKind::Component,
    };
    let rest = std::mem::replace(body, ports::blobs::once(Bytes::new()));
    *body = stream::once(async move { Ok(head.freeze()) }).chain(rest).boxed();
    Ok(kind)
}

fn pieces(body: Body) -> ByteStream {
    let next = |mut body: axum::body::BodyDataStream| async move {
        let piece = match tokio::time::timeout(PAUSE, body.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(piece))) => Ok(piece),
            Ok(Some(Err(error))) => Err(ports::Error::Interrupted { reason: error.to_string() }),
            Err(_) => {
                Err(ports::Error::Interrupted { reason: format!("no byte came for {} seconds", PAUSE.as_secs()) })
            }
        };
        Some((piece, body))
    };
    // Who looks at the head of a short body comes to its end, and hands the stream on.
    stream::unfold(body.into_data_stream(), next).fuse().boxed()
}

/// Download the code of the live version
///
/// A component byte for byte as it was uploaded; of a source, exactly the user's files as a zip.
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions/{name}/source", tag = "code", operation_id = "get_source", params(OfFunction),
    responses((
        status = 200, description = "The code",
        content((Binary = "application/wasm"), (Binary = "application/zip")),
        headers(
            ("Content-Disposition" = String, description = "A name to save it under"),
            ("Repr-Digest" = String, description = "Its SHA-256 (RFC 9530); of a component only"),
        ),
    )),
)]
pub(crate) async fn source(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
) -> ApiResult<Response> {
    let source = app.services.functions.source(ns, &name).await?;
    // Names of functions and extensions are letters, digits, hyphens and dots: nothing to escape.
    let disposition = format!("attachment; filename=\"{}\"", source.file_name);
    let headers = [(CONTENT_TYPE, source.content_type.to_owned()), (CONTENT_DISPOSITION, disposition)];
    let mut response = (headers, Body::from_stream(source.stream)).into_response();
    if let Some(digest) = source.sha256 {
        let digests = [
            (ETAG, format!("\"{digest}\"")),
            (http::HeaderName::from_static("repr-digest"), format!("sha-256=:{}:", STANDARD.encode(digest.as_bytes()))),
        ];
        for (name, value) in digests {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
    }
    Ok(response)
}
