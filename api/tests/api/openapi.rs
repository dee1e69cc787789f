//! The document: complete, and what is served.

use std::collections::BTreeSet;

use axum::body::Body;
use http::Request;
use serde_json::Value;
use sless_core::{Code, Outcome};

use crate::world::{Answer, World, namespace, token};

fn document() -> Value {
    serde_json::to_value(sless_api::openapi()).unwrap()
}

/// Method, path and operation of each route.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = |(path, item): (&String, &Value)| {
        let operations = item.as_object().unwrap().iter();
        operations
            .map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(each).collect()
}

#[test]
fn every_route_of_the_contract_is_in_it() {
    let routes: BTreeSet<String> =
        operations(&document()).into_iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    insta::assert_snapshot!(routes.into_iter().collect::<Vec<_>>().join("\n"), @r"
    DELETE /v1/namespaces/{ns}/functions/{name}
    DELETE /v1/namespaces/{ns}/secrets/{name}
    DELETE /v1/namespaces/{ns}/triggers/{name}
    GET /v1/namespaces/{ns}/functions
    GET /v1/namespaces/{ns}/functions/{name}
    GET /v1/namespaces/{ns}/functions/{name}/build-log
    GET /v1/namespaces/{ns}/functions/{name}/invocations
    GET /v1/namespaces/{ns}/functions/{name}/logs
    GET /v1/namespaces/{ns}/functions/{name}/source
    GET /v1/namespaces/{ns}/functions/{name}/versions
    GET /v1/namespaces/{ns}/invocations
    GET /v1/namespaces/{ns}/invocations/{id}
    GET /v1/namespaces/{ns}/secrets
    GET /v1/namespaces/{ns}/triggers
    GET /v1/namespaces/{ns}/triggers/{name}
    GET /v1/openapi.json
    POST /v1/namespaces/{ns}/ensure
    POST /v1/namespaces/{ns}/functions
    POST /v1/namespaces/{ns}/functions/{name}/invoke
    POST /v1/namespaces/{ns}/functions/{name}/rollback
    POST /v1/namespaces/{ns}/functions/{name}/upload
    POST /v1/namespaces/{ns}/triggers
    PUT /v1/namespaces/{ns}/functions/{name}
    PUT /v1/namespaces/{ns}/secrets/{name}
    PUT /v1/namespaces/{ns}/triggers/{name}
    ");
}

#[test]
fn every_operation_says_what_it_takes_and_answers() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let place = format!("{method} {path}");
        assert!(
            ids.insert(operation["operationId"].as_str().expect(&place).to_owned()),
            "{place}: its id is another's too"
        );
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place}");
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{place}");
        let public = path == "/v1/openapi.json";
        assert_eq!(operation.get("security").is_some(), !public, "{place}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{place}");
        let problem = &responses["default"]["content"]["application/problem+json"]["schema"]["$ref"];
        assert_eq!(problem, "#/components/schemas/Problem", "{place}");
        if !public {
            assert!(["401", "403", "404", "422"].iter().all(|status| responses.contains_key(*status)), "{place}");
        }
        let named = |name: &str| {
            operation["parameters"]
                .as_array()
                .is_some_and(|all| all.iter().any(|p| p["name"] == name && p["in"] == "path"))
        };
        for name in path.split(['{', '}']).skip(1).step_by(2) {
            assert!(named(name), "{place}: {name} is not described");
        }
        if matches!(method.as_str(), "PUT" | "POST") && !path.ends_with("/ensure") {
            assert_eq!(operation["requestBody"]["required"], !path.ends_with("/invoke"), "{place}");
        }
    }
    let upload = &document["paths"]["/v1/namespaces/{ns}/functions/{name}/upload"]["post"]["requestBody"]["content"];
    assert_eq!(upload["application/wasm"]["schema"]["$ref"], "#/components/schemas/Binary");
    assert_eq!(document["components"]["schemas"]["Binary"]["format"], "binary");
}

#[test]
fn every_reference_leads_somewhere_and_every_code_is_listed() {
    let document = document();
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
    let words = |schema: &str| -> BTreeSet<&str> {
        document["components"]["schemas"][schema]["enum"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
    };
    assert_eq!(words("Code"), Code::ALL.iter().map(|code| code.name()).collect());
    assert_eq!(words("Outcome"), Outcome::ALL.iter().map(|outcome| outcome.name()).collect());
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}

#[tokio::test]
async fn it_is_served_without_a_token_and_its_routes_exist() {
    let world = World::start().await;
    let request = Request::get("/v1/openapi.json").body(Body::empty()).unwrap();
    let answer = Answer::of(world.send(request).await).await;
    assert_eq!(answer.expect(200), document());
    assert_eq!(answer.headers["content-type"], "application/json");
    for (method, path, _) in operations(&document()) {
        let uri = path.replace("{ns}", &namespace("a").to_string()).replace("{name}", "f").replace("{id}", "x");
        let request = Request::builder()
            .method(method.as_str())
            .uri(&uri)
            .header("authorization", format!("Bearer {}", token("a")));
        let answer = Answer::of(world.send(request.body(Body::empty()).unwrap()).await).await;
        let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        assert_ne!(answer.status, 405, "{method} {uri}");
        assert!(!problem["detail"].as_str().unwrap_or_default().contains("no such route"), "{method} {uri}");
    }
}
