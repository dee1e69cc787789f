//! The OpenAPI 3.1 document. What every operation has (token, problems) is added in one place, so that no route can
//! forget it.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use sless_core::problem::{Document, MEDIA_TYPE};
use sless_core::{Code, Outcome};
use utoipa::openapi::Required;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, Content, OpenApi, Ref, RefOr, Response as Described, ResponseBuilder, Schema};
use utoipa::{OpenApi as _, PartialSchema, ToSchema};

use crate::{App, auth, routes};

/// Its name in `components`.
const PROBLEM: &str = "Problem";
const TOKEN: &str = "token";
/// The operation whose body may be left out.
const INVOKE: &str = "invoke_function";

/// Bytes as they are, of which a schema can say no more.
pub(crate) struct Binary;

impl PartialSchema for Binary {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(format))
            .description(Some("Bytes as they are"))
            .into()
    }
}
impl ToSchema for Binary {}

/// Every status that a problem can have, for the list of responses.
const PROBLEMS: &[(&str, &str)] = &[
    ("400", "The request can't be read"),
    ("401", "A valid token is needed"),
    ("403", "Not allowed, whether or not it exists"),
    ("404", "Not found"),
    ("422", "A value is not allowed; `errors` points at it"),
    ("default", "Any other problem; `code` says which"),
];

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "sless",
        description = "Managed serverless functions.\n\nErrors are problem+json (RFC 9457) with a stable `code`. Lists take `limit` and \
            `cursor` and answer `items` and `next`. Objects have an `ETag`; `If-Match` makes a change conditional.",
    ),
    tags(
        (name = "namespaces", description = "A tenant's own space"),
        (name = "functions", description = "Functions and calls of them"),
        (name = "code", description = "Uploads and downloads"),
        (name = "versions", description = "What was deployed, and back to it"),
        (name = "triggers", description = "What makes functions run"),
        (name = "secrets", description = "Values that can be written and used, never read"),
        (name = "invocations", description = "The invocation log"),
        (name = "logs", description = "What functions print"),
        (name = "platform", description = "About this API"),
    ),
    components(schemas(Document, Code, Outcome)),
)]
struct Base;

/// The document without routes.
pub(crate) fn base() -> OpenApi {
    let mut document = Base::openapi();
    let components = document.components.get_or_insert_with(Components::new);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
    components.security_schemes.insert(TOKEN.to_owned(), SecurityScheme::Http(bearer).into());
    components.responses.insert(PROBLEM.to_owned(), RefOr::T(problem("Any problem")));
    // The code is one of the API's words or, of a call, one of the outcomes'.
    if let Some(RefOr::T(Schema::Object(problem))) = components.schemas.get_mut(PROBLEM) {
        let code = AnyOfBuilder::new().item(Ref::from_schema_name("Code")).item(Ref::from_schema_name("Outcome"));
        problem.properties.insert("code".to_owned(), RefOr::T(Schema::AnyOf(code.build())));
    }
    document
}

fn problem(description: &str) -> Described {
    ResponseBuilder::new()
        .description(description)
        .content(MEDIA_TYPE, Content::new(Some(Ref::from_schema_name(PROBLEM))))
        .build()
}

/// Adds to each operation what all have.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        let public = path == auth::OPENAPI_PATH;
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            add_problems(operation, public);
        }
    }
    document
}

fn add_problems(operation: &mut Operation, public: bool) {
    if operation.operation_id.as_deref() == Some(INVOKE)
        && let Some(RefOr::T(body)) = &mut operation.request_body
    {
        // The macro takes every body for one that must be there.
        body.required = Some(Required::False);
    }
    if !public {
        operation.security = Some(vec![SecurityRequirement::new::<_, _, &str>(TOKEN, [])]);
    }
    for (status, description) in PROBLEMS.iter().filter(|(status, _)| !public || *status == "default") {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| RefOr::T(problem(description)));
    }
}

/// The document of all routes: `docs/openapi.json`.
pub fn openapi() -> OpenApi {
    complete(routes::all().into_openapi())
}

/// Read this document
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "platform", operation_id = "get_openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)),
)]
pub(crate) async fn document(State(app): State<App>) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response()
}
