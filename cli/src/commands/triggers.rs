//! `sless triggers`.

use sless_client::Client;
use sless_core::Trigger;
use sless_core::trigger::{HttpAuth, HttpTrigger, TriggerSpec};

use crate::args::TriggersCommand;
use crate::failure::Failure;
use crate::output::{Output, instant, say, table};

pub(crate) async fn run(command: TriggersCommand, client: &Client, out: &mut Output) -> Result<(), Failure> {
    match command {
        TriggersCommand::List => {
            let triggers = client.triggers().await?;
            if triggers.is_empty() && !out.is_json() {
                say("no triggers yet");
                return Ok(());
            }
            out.result(&triggers, |triggers| listed(triggers))
        }
        TriggersCommand::Create { function, name, auth } => {
            client.ensure().await?;
            let name = name.map_or_else(|| function.to_string(), |name| name.to_string());
            let trigger = client.create_trigger(&name, &TriggerSpec { function, http: HttpTrigger { auth } }).await?;
            out.result(&trigger, |trigger| listed(std::slice::from_ref(trigger)))
        }
        TriggersCommand::Delete { name } => {
            client.delete_trigger(name.as_str()).await?;
            say(&format!("deleted trigger {name}"));
            Ok(())
        }
    }
}

fn listed(triggers: &[Trigger]) -> String {
    table(
        ["NAME", "FUNCTION", "KIND", "AUTH", "CREATED", "URL"],
        triggers.iter().map(|t| {
            let auth = match t.spec.http.auth {
                HttpAuth::None => "none",
            };
            [
                t.metadata.name.clone(),
                t.spec.function.to_string(),
                "http".to_owned(),
                auth.to_owned(),
                instant(t.metadata.created_at),
                t.status.url.clone().unwrap_or_else(|| "-".to_owned()),
            ]
        }),
    )
}
