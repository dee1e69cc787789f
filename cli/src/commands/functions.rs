//! `sless functions`.

use sless_client::Client;
use sless_core::Function;

use crate::args::FunctionsCommand;
use crate::failure::Failure;
use crate::output::{Output, fields, instant, say, table};

pub(crate) async fn run(command: FunctionsCommand, client: &Client, out: &mut Output) -> Result<(), Failure> {
    match command {
        FunctionsCommand::List => {
            let functions = client.functions().await?;
            if functions.is_empty() && !out.is_json() {
                say("no functions yet; `sless deploy FILE` makes one");
                return Ok(());
            }
            out.result(&functions, |functions| listed(functions))
        }
        FunctionsCommand::Get(args) => {
            let function = client.function(args.name.as_str()).await?;
            out.result(&function, shown)
        }
        FunctionsCommand::Delete { name, triggers } => {
            client.delete_function(name.as_str()).await?;
            say(&format!("deleted function {name}"));
            if triggers {
                for trigger in client.triggers().await?.into_iter().filter(|t| t.spec.function == name) {
                    client.delete_trigger(&trigger.metadata.name).await?;
                    say(&format!("deleted trigger {}", trigger.metadata.name));
                }
            }
            Ok(())
        }
    }
}

pub(crate) fn listed(functions: &[Function]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    table(
        ["NAME", "RUNTIME", "PHASE", "VERSION", "UPDATED", "URL"],
        functions.iter().map(|f| {
            [
                f.metadata.name.clone(),
                f.spec.runtime.to_string(),
                f.status.phase.to_string(),
                or_dash(f.status.version.map(|v| v.to_string())),
                instant(f.metadata.updated_at),
                or_dash(f.status.url.clone()),
            ]
        }),
    )
}

pub(crate) fn shown(function: &Function) -> String {
    let (spec, status) = (&function.spec, &function.status);
    let mut pairs = vec![
        ("Name", function.metadata.name.clone()),
        ("Namespace", function.metadata.namespace.to_string()),
        ("Phase", status.phase.to_string()),
        ("Version", status.version.map_or_else(|| "-".to_owned(), |v| v.to_string())),
        ("URL", status.url.clone().unwrap_or_else(|| "-".to_owned())),
        ("Runtime", spec.runtime.to_string()),
        ("Memory", format!("{} MiB", spec.memory_mb)),
        ("Timeout", format!("{} s, {} ms of processor time", spec.timeout_seconds, spec.limits.cpu_ms)),
        ("Concurrency", spec.concurrency.to_string()),
    ];
    if let Some(rate) = spec.limits.rate_per_second {
        pairs.push(("Rate", format!("{rate} calls a second")));
    }
    if spec.reuse {
        pairs.push(("Reuse", "an instance serves one call after another".to_owned()));
    }
    let environment: Vec<_> = spec.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let secrets: Vec<_> = spec.secret_refs.iter().map(|(k, v)| format!("{k} = secret {v}")).collect();
    let allow = spec.egress.allow.clone();
    for (name, lines) in [("Environment", environment), ("Secrets", secrets), ("May connect", allow)] {
        if !lines.is_empty() {
            pairs.push((name, lines.join("\n")));
        }
    }
    pairs.push(("Created", instant(function.metadata.created_at)));
    pairs.push(("Updated", instant(function.metadata.updated_at)));
    if let Some(error) = &status.last_error {
        pairs.push(("Error", error.clone()));
    }
    fields(&pairs)
}
