//! `sless deploy`: a component or source, and its settings, become a function that serves.
//!
//! What to deploy is settled first, from flags, `sless.toml` and files, before anything is sent.

pub(crate) mod build;
mod pack;
mod plan;
mod progress;
pub(crate) mod wait;

use serde::Serialize;
use sless_client::{Client, Error};
use sless_core::function::FunctionSpec;
use sless_core::trigger::TriggerSpec;
use sless_core::{Function, VersionNumber};

use crate::args::DeployArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, say};
use plan::{Plan, PlannedTrigger};

/// What a deploy came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployed {
    function: Function,
    version: VersionNumber,
    /// False where code and settings were there already.
    changed: bool,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Whether it serves by now.
    #[serde(skip)]
    waited: bool,
}

impl Deployed {
    /// How far it is, in a line.
    pub(crate) fn state(&self) -> String {
        let Self { function, version, .. } = self;
        let name = &function.metadata.name;
        match (self.waited, self.changed) {
            (false, true) => {
                format!("{name} version {version} is being built; `sless functions get {name}` shows how far it is")
            }
            (_, false) => format!("{name} has this code and these settings already, as version {version}"),
            (true, true) => format!("{name} version {version} is ready"),
        }
    }

    fn shown(&self) -> String {
        let state = self.state();
        match &self.url {
            Some(url) => format!("{state}\n\n  {url}\n\n  curl {url}\n"),
            None => {
                let name = &self.function.metadata.name;
                format!("{state}\n\nIt has no http trigger; `sless invoke {name}` calls it.\n")
            }
        }
    }
}

pub(crate) async fn run(args: DeployArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    let deployed = deploy(args, client).await?;
    out.result(&deployed, Deployed::shown)
}

/// Deploys, and waits as it was asked to.
pub(crate) async fn deploy(args: DeployArgs, client: &Client) -> Result<Deployed, Failure> {
    let (args, plan) = {
        // A build command may take its time.
        let made = tokio::task::spawn_blocking(move || Plan::make(&args).map(|plan| (args, plan))).await;
        made.map_err(|e| Failure::new(Exit::Failure, format!("settle what to deploy: {e}")))??
    };
    for note in &plan.notes {
        say(note);
    }
    client.ensure().await?;
    let settled = settle(&plan, client).await?;
    let progress = progress::upload(&plan);
    let accepted = client.upload(plan.name.as_str(), plan.code.file(), progress.callback()).await;
    progress.finish();
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(error) => {
            if settled == Settled::Created {
                // Nothing of a deploy that was refused stays. That the refusal is told matters more than a clean-up.
                let _ = client.delete_function(plan.name.as_str()).await;
            }
            return Err(error.into());
        }
    };
    for note in &accepted.notes {
        say(&format!("note: {note}"));
    }
    let mut url = None;
    for trigger in &plan.triggers {
        url = ensure_trigger(&plan, trigger, client).await?.or(url);
    }
    let function = if args.no_wait {
        accepted.function
    } else {
        wait::until_ready(client, plan.name.as_str(), accepted.function.metadata.generation, args.wait_timeout).await?
    };
    Ok(Deployed {
        version: accepted.version.number,
        changed: accepted.changed || settled == Settled::Changed,
        notes: accepted.notes,
        url: function.status.url.clone().or(url),
        function,
        waited: !args.no_wait,
    })
}

/// What had to be done about a function's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// It was not there.
    Created,
    /// It had others.
    Changed,
    /// Nothing.
    Unchanged,
}

/// Makes the function, or brings its settings to what is wanted.
async fn settle(plan: &Plan, client: &Client) -> Result<Settled, Failure> {
    let name = plan.name.as_str();
    let present = match client.function(name).await {
        Ok(function) => Some(function),
        Err(Error::Problem(problem)) if problem.status == 404 => None,
        Err(error) => return Err(error.into()),
    };
    let Some(function) = present else {
        match client.create_function(name, &plan.spec(None)).await {
            Ok(_) => {
                say(&format!("created function {name}"));
                return Ok(Settled::Created);
            }
            // Another deploy was quicker. Its settings are not overwritten unseen.
            Err(Error::Problem(problem)) if problem.code == "already_exists" => {
                return Err(Failure::from(Error::Problem(problem)).remedy("run the command again"));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let wanted = plan.spec(Some(&function.spec));
    if wanted == function.spec {
        return Ok(Settled::Unchanged);
    }
    client.update_function(name, &wanted, Some(&function.metadata.resource_version)).await?;
    say(&format!("changed settings of {name}: {}", differences(&function.spec, &wanted).join(", ")));
    Ok(Settled::Changed)
}

/// The names of the settings in which two specs differ.
fn differences(old: &FunctionSpec, new: &FunctionSpec) -> Vec<String> {
    let object = |spec| match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (object(old), object(new));
    let mut names: Vec<_> =
        old.keys().chain(new.keys()).filter(|key| old.get(*key) != new.get(*key)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Makes a trigger, or finds that it is there. Answers where it answers.
async fn ensure_trigger(plan: &Plan, trigger: &PlannedTrigger, client: &Client) -> Result<Option<String>, Failure> {
    let name = trigger.name.as_str();
    let spec = TriggerSpec { function: plan.name.clone(), http: trigger.http.clone() };
    let made = match client.create_trigger(name, &spec).await {
        Err(Error::Problem(problem)) if problem.code == "already_exists" => {
            let present = client.trigger(name).await?;
            if present.spec == spec {
                present
            } else if present.spec.function == spec.function {
                client.update_trigger(name, &spec, Some(&present.metadata.resource_version)).await?
            } else {
                let text = format!("trigger {name} is of function {}, not of {}", present.spec.function, plan.name);
                return Err(Failure::new(Exit::Conflict, text)
                    .remedy("give the trigger another name in sless.toml, or deploy with --no-http"));
            }
        }
        made => made?,
    };
    Ok(made.status.url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sless_core::Runtime;

    #[test]
    fn differing_settings_are_named() {
        let old = FunctionSpec::new(Runtime::Wasm);
        let mut new = FunctionSpec { memory_mb: 64, reuse: true, ..old.clone() };
        new.limits.rate_per_second = Some(1);
        assert_eq!(differences(&old, &new), ["limits", "memoryMb", "reuse"]);
        assert!(differences(&old, &old).is_empty());
    }
}
