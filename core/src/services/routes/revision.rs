//! What an invoker needs to serve a version: its environment with the values of its secrets.

use std::collections::BTreeMap;

use crate::names::{FunctionKey, SecretName};
use crate::ports::{self, Secrets};
use crate::tenant::Namespace;
use crate::version::{Revision, Version, VersionState};

/// A function refers to a secret that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "variable `{variable}` refers to secret `{secret}`, which is not there; write it with PUT …/secrets/{secret} or `sless secrets set {secret}`"
)]
pub struct MissingSecret {
    /// The environment variable.
    pub variable: String,
    /// The secret.
    pub secret: SecretName,
}

/// What an invoker needs to serve a version, with the values of its secrets.
pub(in crate::services) async fn revision(
    secrets: &dyn Secrets,
    function: &FunctionKey,
    version: &Version,
) -> ports::Result<Result<Revision, MissingSecret>> {
    let mut spec = version.spec.clone();
    let plain = std::mem::take(&mut spec.env);
    let env = match environment(secrets, function.namespace, plain, &spec.secret_refs).await? {
        Ok(env) => env,
        Err(missing) => return Ok(Err(missing)),
    };
    let (artifact, image) = match &version.state {
        VersionState::Ready { artifact, image } => (artifact.clone(), image.clone()),
        _ => (None, None),
    };
    Ok(Ok(Revision {
        function: function.clone(),
        uid: version.function_uid,
        version: version.number,
        spec,
        env,
        artifact,
        image,
    }))
}

/// Variables with their values, in order of name.
pub(super) async fn environment(
    secrets: &dyn Secrets,
    namespace: Namespace,
    plain: BTreeMap<String, String>,
    refs: &BTreeMap<String, SecretName>,
) -> ports::Result<Result<Vec<(String, String)>, MissingSecret>> {
    let mut env = plain;
    for (variable, secret) in refs {
        match secrets.get(namespace, secret).await? {
            Some(value) => env.insert(variable.clone(), value.0),
            None => return Ok(Err(MissingSecret { variable: variable.clone(), secret: secret.clone() })),
        };
    }
    Ok(Ok(env.into_iter().collect()))
}
