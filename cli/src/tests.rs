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

/// clap lets an option of a command hide a global one without a word, and then panics where they differ in type.
#[test]
fn no_command_hides_a_global_option() {
    let command = Cli::command();
    let globals: Vec<_> = command.get_arguments().filter(|a| a.is_global_set()).collect();
    assert!(globals.len() >= 6);
    let mut commands: Vec<_> = command.get_subcommands().collect();
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        for argument in command.get_arguments() {
            for global in &globals {
                let same = argument.get_id() == global.get_id()
                    || argument.get_long().is_some_and(|long| global.get_long() == Some(long))
                    || argument.get_short().is_some_and(|short| global.get_short() == Some(short));
                assert!(!same, "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
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
    insta::assert_snapshot!(commands::functions::listed(&[ready, new]), @"
    NAME   RUNTIME  PHASE    VERSION  UPDATED               URL
    hello  wasm     Ready    3        2026-01-31T12:30:00Z  http://127.0.0.1:9090/fn/n/hello/
    hello  wasm     Pending  -        2026-01-31T12:30:00Z  -
    ");
}

#[test]
fn a_function_is_shown_with_its_settings() {
    let failed = function(
        serde_json::json!({"phase": "Failed", "version": 2, "lastError": "imports `x:y/z`, which is not given"}),
    );
    insta::assert_snapshot!(commands::functions::shown(&failed), @"
    Name         hello
    Namespace    sless-cdd874dfa31ba6ca
    Phase        Failed
    Version      2
    URL          -
    Runtime      wasm
    Memory       128 MiB
    Timeout      30 s, 10000 ms of processor time
    Concurrency  100
    Rate         5 calls a second
    Environment  A=1
                 B=2
    Created      2026-01-31T12:00:00Z
    Updated      2026-01-31T12:30:00Z
    Error        imports `x:y/z`, which is not given
    ");
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
    insta::assert_snapshot!(failure.text(), @"
    error: 2 fields have values that are not allowed
      /spec/memoryMb: 0 is out of range
      /spec/timeoutSeconds: 0 is out of range
      request id: 0199e325-1cdf-7cda-9319-e5302a85e291
    ");
    insta::assert_snapshot!(failure.json(), @r#"
    {
      "code": "invalid",
      "detail": "2 fields have values that are not allowed",
      "errors": [
        {
          "detail": "0 is out of range",
          "pointer": "/spec/memoryMb"
        },
        {
          "detail": "0 is out of range",
          "pointer": "/spec/timeoutSeconds"
        }
      ],
      "exitCode": 6,
      "requestId": "0199e325-1cdf-7cda-9319-e5302a85e291",
      "status": 422,
      "title": "A value is not allowed",
      "type": "about:blank"
    }
    "#);
    assert_eq!(failure.exit, Exit::Invalid);
}

#[test]
fn a_failure_of_the_command_itself_has_the_same_shape() {
    let failure =
        Failure::new(Exit::BuildFailed, "the build of hello failed").remedy("look at `sless build-log hello`");
    insta::assert_snapshot!(failure.text(), @"
    error: the build of hello failed
      help: look at `sless build-log hello`
    ");
    insta::assert_snapshot!(failure.json(), @r#"
    {
      "code": "build_failed",
      "detail": "the build of hello failed",
      "exitCode": 7,
      "remedy": "look at `sless build-log hello`",
      "title": "The command failed"
    }
    "#);
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
    insta::assert_snapshot!(command.render_help(), @"
    Serverless functions: develop, deploy, call and look after them

    Usage: sless [OPTIONS] <COMMAND>

    Commands:
      new          Write the folder of a new function, ready to test and deploy
      dev          Run the whole platform in one process, for development
      deploy       Create or update a function from source or a component, and wait until it serves
      functions    List, show and delete functions
      versions     List a function's versions
      rollback     Go back to an older version, without a build
      invoke       Call a function as its owner, also one without an http trigger
      logs         Show what a function prints
      build-log    Show what a function's build printed
      invocations  List a function's newest calls
      secrets      Set, list and delete secrets; values can't be read back
      triggers     List, create and delete triggers
      token        Print a token: the one in use, or a new one
      bench        Load a URL and print latency, throughput and cold starts
      completions  Print a completion script for a shell
      openapi      Print the API's OpenAPI document
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Global options:
          --endpoint <URL>         Where the API is, such as http://127.0.0.1:9090 [env: SLESS_ENDPOINT]
          --token <JWT>            The bearer token [env: SLESS_TOKEN]
          --namespace <NAMESPACE>  Whose functions; the token's own by default [env: SLESS_NAMESPACE]
      -o, --output <FORMAT>        How results and errors are printed [env: SLESS_OUTPUT] [possible
                                   values: table, json]
          --config <FILE>          The file of settings [default: ~/.config/sless/config.toml] [env:
                                   SLESS_CONFIG]
          --data <DIR>             The data folder of `sless dev` [default: .sless here or in the
                                   nearest folder above] [env: SLESS_DATA]

    Exit codes:
      0  done
      1  failed for another reason; `invoke`: the function answered with an error
      2  the command line or a setting is wrong
      3  not found
      4  not allowed: no valid token, or one of another tenant
      5  conflict: it exists already, or was changed meanwhile
      6  invalid: a value, a file or a component is refused, or too large
      7  the build failed
      8  not reachable or busy; trying again may help
    ");
}

#[test]
fn deploy_help_says_what_a_file_does() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let deploy = command.find_subcommand_mut("deploy").unwrap();
    insta::assert_snapshot!(deploy.render_help(), @"
    Create or update a function from source or a component, and wait until it serves

    Usage: sless deploy [OPTIONS] [PATH]

    Arguments:
      [PATH]  A folder of source or with sless.toml, one file of source (.py, .js), a component (.wasm),
              or a built Rust project [default: .]

    Options:
          --name <NAME>               The function's name [default: as in sless.toml, else that of the
                                      file or folder]
          --runtime <RUNTIME>         What runs it [default: wasm]
          --entrypoint <FILE.EXPORT>  The handler of source, as file.export [default: handler.handler]
          --memory <MIB>              Memory of an instance in MiB
          --timeout <SECONDS>         Wall clock of a call in seconds
          --cpu <MS>                  Processor time of a call in milliseconds
          --concurrency <CALLS>       Calls at once
          --rate <CALLS>              Calls a second
          --reuse[=<BOOL>]            Whether an instance may serve one call after another [possible
                                      values: true, false]
          --env <KEY=VALUE>           An environment variable
          --secret <KEY=SECRET>       An environment variable whose value is a secret
          --allow <RULE>              Where it may connect to; once given, nowhere else (host,
                                      host:port, network/prefix, *)
          --no-build                  Don't run the build command of sless.toml: deploy what it left
          --no-http                   Make no http trigger: the function does not answer at /fn
          --no-wait                   Return after the upload instead of waiting until it serves
          --wait-timeout <TIME>       How long to wait, such as 90s or 5m [default: 5m]
      -h, --help                      Print help (see more with '--help')

    Global options:
          --endpoint <URL>         Where the API is, such as http://127.0.0.1:9090 [env: SLESS_ENDPOINT]
          --token <JWT>            The bearer token [env: SLESS_TOKEN]
          --namespace <NAMESPACE>  Whose functions; the token's own by default [env: SLESS_NAMESPACE]
      -o, --output <FORMAT>        How results and errors are printed [env: SLESS_OUTPUT] [possible
                                   values: table, json]
          --config <FILE>          The file of settings [default: ~/.config/sless/config.toml] [env:
                                   SLESS_CONFIG]
          --data <DIR>             The data folder of `sless dev` [default: .sless here or in the
                                   nearest folder above] [env: SLESS_DATA]

    A sless.toml beside the component, or in the folder, describes the function; flags override it.
    Without one, what is not given stays as it is, or has its default where the function is new.
    ");
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
