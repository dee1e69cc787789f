//! `sless secrets`.

use sless_client::Client;
use sless_core::ports::secrets::MAX_SECRET_BYTES;

use super::given;
use crate::args::SecretsCommand;
use crate::failure::{Exit, Failure};
use crate::output::{Output, instant, say, table};

pub(crate) async fn run(command: SecretsCommand, client: &Client, out: &mut Output) -> Result<(), Failure> {
    match command {
        SecretsCommand::Set { name, value } => {
            let piped = value.as_deref().is_none_or(|value| value == "-");
            let bytes = given(value.as_deref().unwrap_or("-"), MAX_SECRET_BYTES as u64 + 2).await?;
            let mut value =
                String::from_utf8(bytes).map_err(|_| Failure::new(Exit::Invalid, "a secret's value is UTF-8 text"))?;
            if piped {
                // `echo` and editors end the last line; that is not part of the value.
                let kept = value.strip_suffix('\n').map_or(value.len(), |v| v.strip_suffix('\r').unwrap_or(v).len());
                value.truncate(kept);
            }
            client.ensure().await?;
            let info = client.put_secret(name.as_str(), &value).await?;
            say(&format!("secret {} is set; functions get it with `--secret KEY={}`", info.name, info.name));
            if out.is_json() { out.result(&info, |_| String::new()) } else { Ok(()) }
        }
        SecretsCommand::List => {
            let secrets = client.secrets().await?;
            if secrets.is_empty() && !out.is_json() {
                say("no secrets yet");
                return Ok(());
            }
            out.result(&secrets, |secrets| {
                table(
                    ["NAME", "CREATED", "UPDATED"],
                    secrets.iter().map(|s| [s.name.to_string(), instant(s.created_at), instant(s.updated_at)]),
                )
            })
        }
        SecretsCommand::Delete { name } => {
            client.delete_secret(name.as_str()).await?;
            say(&format!("deleted secret {name}"));
            Ok(())
        }
    }
}
