//! The words that users see: help, tables, errors.

use clap::{CommandFactory as _, Parser as _};
use sless_client::{Error, Problem};
use sless_core::Function;
use sless_core::problem::FieldError;

use crate::args::Cli;
use crate::commands;
use crate::failure::{Exit, Failure, exit_of};

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

fn function(status: serde_json::Value) -> Function {
    serde_json::from_value(serde_json::json!({
        "namespace": "sless-cdd874dfa31ba6ca", "name": "hello", "uid": "0199e325-1cdf-7cda-9319-e5302a85e291",
        "generation": 2, "resourceVersion": "7", "createdAt": "2026-01-31T12:00:00Z", "updatedAt": "2026-01-31T12:30:00.5Z",
        "spec": {"runtime": "wasm", "env": {"A": "1", "B": "2"}, "limits": {"ratePerSecond": 5}}, "status": status,
    }))
    .unwrap()
}

#[test]
fn functions_are_listed_in_columns() {
    let ready =
        function(serde_json::json!({"phase": "Ready", "version": 3, "url": "http://127.0.0.1:9090/fn/n/hello/"}));
    let new = function(serde_json::json!({}));
    insta::assert_snapshot!(commands::functions::listed(&[ready, new]), @"");
}

#[test]
fn a_function_is_shown_with_its_settings() {
    let failed = function(
        serde_json::json!({"phase": "Failed", "version": 2, "lastError": "imports `x:y/z`, which is not given"}),
    );
    insta::assert_snapshot!(commands::functions::shown(&failed), @"");
}

fn refused(status: u16, code: &str, errors: Vec<FieldError>) -> Failure {
    let detail = "2 fields have values that are not allowed".to_owned();
    let problem = Problem {
        kind: "about:blank".into(),
        title: "A value is not allowed".into(),
        status,
        detail,
        code: code.into(),
        errors,
        request_id: Some("0199e325-1cdf-7cda-9319-e5302a85e291".into()),
        ..Problem::default()
    };
    Error::Problem(Box::new(problem)).into()
}

#[test]
fn a_refusal_names_fields_and_request() {
    let fields = ["/spec/memoryMb", "/spec/timeoutSeconds"].map(|p| FieldError::new(p, "0 is out of range")).to_vec();
    let failure = refused(422, "invalid", fields);
    insta::assert_snapshot!(failure.text(), @"");
    insta::assert_snapshot!(failure.json(), @"");
    assert_eq!(failure.exit, Exit::Invalid);
}

#[test]
fn a_failure_of_the_command_itself_has_the_same_shape() {
    let failure =
        Failure::new(Exit::BuildFailed, "the build of hello failed").remedy("look at `sless build-log hello`");
    insta::assert_snapshot!(failure.text(), @"");
    insta::assert_snapshot!(failure.json(), @"");
}

#[test]
fn every_status_has_the_exit_code_that_help_promises() {
    for (status, exit) in [
        (401, Exit::Denied),
        (403, Exit::Denied),
        (404, Exit::NotFound),
        (409, Exit::Conflict),
        (412, Exit::Conflict),
        (413, Exit::Invalid),
        (422, Exit::Invalid),
        (429, Exit::Unavailable),
        (503, Exit::Unavailable),
        (504, Exit::Unavailable),
        (500, Exit::Failure),
    ] {
        assert_eq!(exit_of(status), exit, "{status}");
    }
    let text = refused(401, "unauthenticated", Vec::new()).text();
    assert!(text.contains("help: set a valid token with --token or SLESS_TOKEN"), "{text}");
}

#[test]
fn a_wrong_command_line_is_answered_with_what_would_be_right() {
    let error = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap_err().to_string();
    let text = error("sless deploy f.wasm --name A_b");
    assert!(text.contains("a name starts with a lower-case letter"), "{text}");
    let text = error("sless deploy f.wasm --env NOVALUE");
    assert!(text.contains("write it as KEY=VALUE"), "{text}");
    let text = error("sless deploy f.wasm --runtime perl");
    assert!(text.contains("`perl` is no runtime; there are wasm, "), "{text}");
    let text = error("sless bench http://x -d 20m");
    assert!(text.contains("at most 10m"), "{text}");
    let text = error("sless logs f --folow");
    assert!(text.contains("--follow"), "{text}");
}

#[test]
fn help_fits_a_screen_and_names_the_exit_codes() {
    let mut command = Cli::command().term_width(100);
    insta::assert_snapshot!(command.render_help(), @"");
}

#[test]
fn deploy_help_says_what_a_file_does() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let deploy = command.find_subcommand_mut("deploy").unwrap();
    insta::assert_snapshot!(deploy.render_help(), @"");
}

#[test]
fn the_reference_has_every_command() {
    let reference = crate::reference();
    for command in Cli::command().get_subcommands() {
        assert!(reference.contains(&format!("## `sless {}`", command.get_name())), "{}", command.get_name());
    }
    assert!(reference.contains("## `sless secrets set`"));
    assert!(!reference.contains("__builder"));
}
