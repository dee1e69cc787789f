//! `sless token`: the token in use, or a new one.

use jiff::Timestamp;
use serde::Serialize;
use sless_core::auth::{SignError, sign, unverified_subject};
use sless_core::tenant::Tenant;

use crate::args::TokenArgs;
use crate::connection::Settings;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct Printed {
    token: String,
    subject: String,
    namespace: String,
}

pub(crate) fn run(args: TokenArgs, settings: &Settings, out: &mut Output) -> Result<(), Failure> {
    let token = match &args.subject {
        None => settings.token()?,
        Some(subject) => {
            let secret = secret(&args, settings)?;
            sign(secret.trim(), subject, args.lifetime, Timestamp::now()).map_err(|error| match error {
                SignError::Secret(_) => Failure::new(Exit::Usage, error.to_string()),
                _ => Failure::new(Exit::Invalid, error.to_string()),
            })?
        }
    };
    let subject = unverified_subject(&token)
        .map_err(|e| Failure::new(Exit::Usage, format!("the token in use is not a JWT: {e}")))?;
    let namespace = Tenant::from_subject(&subject).namespace().to_string();
    out.result(&Printed { token, subject, namespace }, |printed| format!("{}\n", printed.token))
}

fn secret(args: &TokenArgs, settings: &Settings) -> Result<String, Failure> {
    if let Some(path) = &args.secret_file {
        return std::fs::read_to_string(path).map_err(|e| Failure::file(path, &e));
    }
    if let Some(secret) = args.jwt_secret.as_ref().filter(|secret| !secret.is_empty()) {
        return Ok(secret.clone());
    }
    let of_dev = settings.existing_data_folder().map(|folder| sless_server::dev::read_jwt_secret(&folder));
    match of_dev {
        Some(secret) => {
            secret.map_err(|e| Failure::new(Exit::Usage, format!("{e:#}")).remedy("start `sless dev` once"))
        }
        None => Err(Failure::new(Exit::Usage, "there is no secret to sign with")
            .remedy("set SLESS_JWT_SECRET or --secret-file, or start `sless dev`")),
    }
}
