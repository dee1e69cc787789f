//! The calls of `/v1`, each one a method.

use reqwest::header::{CONTENT_TYPE, IF_MATCH};
use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sless_core::function::{Function, FunctionSpec};
use sless_core::invocation::Invocation;
use sless_core::page::{MAX_LIMIT, Page};
use sless_core::ports::{NamespaceInfo, SecretInfo};
use sless_core::resource::ResourceVersion;
use sless_core::trigger::{Trigger, TriggerSpec};
use sless_core::version::Version;

use crate::send::{document, read};
use crate::{Client, Error};

/// The most items that a whole list is made of; more are asked for page by page.
pub const MAX_LISTED: usize = 10_000;

/// What an upload or a rollback answers with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The function now.
    pub function: Function,
    /// The version of this code and these settings.
    pub version: Version,
    /// What its owner should know though it was accepted.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether anything changed; the same code again makes no version.
    pub changed: bool,
}

#[derive(Serialize)]
struct Named<'a, S> {
    name: &'a str,
    spec: &'a S,
}

#[derive(Serialize)]
struct Spec<'a, S> {
    spec: &'a S,
}

impl Client {
    /// Makes the namespace where it is not there.
    pub async fn ensure(&self) -> Result<NamespaceInfo, Error> {
        self.fetch("ensure the namespace", || Ok(self.request(Method::POST, self.url(&["ensure"])))).await
    }

    /// Functions by name.
    pub async fn functions(&self) -> Result<Vec<Function>, Error> {
        self.list("list functions", self.url(&["functions"]), MAX_LISTED).await
    }

    /// One function.
    pub async fn function(&self, name: &str) -> Result<Function, Error> {
        self.get("get the function", &["functions", name]).await
    }

    /// Makes a function, without code yet.
    pub async fn create_function(&self, name: &str, spec: &FunctionSpec) -> Result<Function, Error> {
        let request = json(self.request(Method::POST, self.url(&["functions"])), &Named { name, spec });
        read("create the function", self.send_once(request).await?).await
    }

    /// Replaces a function's settings, if it still is in the given state.
    pub async fn update_function(
        &self,
        name: &str,
        spec: &FunctionSpec,
        expected: Option<&ResourceVersion>,
    ) -> Result<Function, Error> {
        self.fetch("update the function", || {
            let request = json(self.request(Method::PUT, self.url(&["functions", name])), &Spec { spec });
            Ok(if_match(request, expected))
        })
        .await
    }

    /// Deletes a function with its versions, code and rows.
    pub async fn delete_function(&self, name: &str) -> Result<(), Error> {
        self.delete(&["functions", name]).await
    }

    /// A function's versions, newest first.
    pub async fn versions(&self, name: &str) -> Result<Vec<Version>, Error> {
        self.list("list versions", self.url(&["functions", name, "versions"]), MAX_LISTED).await
    }

    /// Goes back to a version's code, runtime and settings.
    pub async fn rollback(&self, name: &str, version: u32) -> Result<Accepted, Error> {
        #[derive(Serialize)]
        struct Body {
            version: u32,
        }
        let url = self.url(&["functions", name, "rollback"]);
        let request = json(self.request(Method::POST, url), &Body { version });
        read("roll back", self.send_once(request).await?).await
    }

    /// What the build of a version printed; of the newest one where none is named.
    pub async fn build_log(&self, name: &str, version: Option<u32>) -> Result<String, Error> {
        let mut url = self.url(&["functions", name, "build-log"]);
        if let Some(version) = version {
            url.query_pairs_mut().append_pair("version", &version.to_string());
        }
        let response = self.send(|| Ok(self.request(Method::GET, url.clone()))).await?;
        Ok(String::from_utf8_lossy(&document(response).await?).into_owned())
    }

    /// A function's newest calls, at most `limit`, newest first.
    pub async fn invocations(&self, name: &str, limit: usize) -> Result<Vec<Invocation>, Error> {
        self.list("list invocations", self.url(&["functions", name, "invocations"]), limit).await
    }

    /// One call.
    pub async fn invocation(&self, id: &str) -> Result<Invocation, Error> {
        self.get("get the invocation", &["invocations", id]).await
    }

    /// Secrets by name, without their values.
    pub async fn secrets(&self) -> Result<Vec<SecretInfo>, Error> {
        self.list("list secrets", self.url(&["secrets"]), MAX_LISTED).await
    }

    /// Writes a secret.
    pub async fn put_secret(&self, name: &str, value: &str) -> Result<SecretInfo, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            value: &'a str,
        }
        self.fetch("write the secret", || {
            Ok(json(self.request(Method::PUT, self.url(&["secrets", name])), &Body { value }))
        })
        .await
    }

    /// Removes a secret.
    pub async fn delete_secret(&self, name: &str) -> Result<(), Error> {
        self.delete(&["secrets", name]).await
    }

    /// Triggers by name.
    pub async fn triggers(&self) -> Result<Vec<Trigger>, Error> {
        self.list("list triggers", self.url(&["triggers"]), MAX_LISTED).await
    }

    /// One trigger.
    pub async fn trigger(&self, name: &str) -> Result<Trigger, Error> {
        self.get("get the trigger", &["triggers", name]).await
    }

    /// Makes a trigger.
    pub async fn create_trigger(&self, name: &str, spec: &TriggerSpec) -> Result<Trigger, Error> {
        let request = json(self.request(Method::POST, self.url(&["triggers"])), &Named { name, spec });
        read("create the trigger", self.send_once(request).await?).await
    }

    /// Replaces what a trigger does, if it still is in the given state.
    pub async fn update_trigger(
        &self,
        name: &str,
        spec: &TriggerSpec,
        expected: Option<&ResourceVersion>,
    ) -> Result<Trigger, Error> {
        self.fetch("update the trigger", || {
            let request = json(self.request(Method::PUT, self.url(&["triggers", name])), &Spec { spec });
            Ok(if_match(request, expected))
        })
        .await
    }

    /// Removes a trigger.
    pub async fn delete_trigger(&self, name: &str) -> Result<(), Error> {
        self.delete(&["triggers", name]).await
    }

    async fn get<T: DeserializeOwned>(&self, doing: &'static str, segments: &[&str]) -> Result<T, Error> {
        self.fetch(doing, || Ok(self.request(Method::GET, self.url(segments)))).await
    }

    async fn delete(&self, segments: &[&str]) -> Result<(), Error> {
        self.send(|| Ok(self.request(Method::DELETE, self.url(segments)))).await.map(drop)
    }

    /// The first `most` items of a list, over as many pages as it takes.
    async fn list<T: DeserializeOwned>(&self, doing: &'static str, url: Url, most: usize) -> Result<Vec<T>, Error> {
        let mut all: Vec<T> = Vec::new();
        let mut cursor: Option<String> = None;
        while all.len() < most {
            let mut url = url.clone();
            let limit = (most - all.len()).min(MAX_LIMIT as usize);
            url.query_pairs_mut().append_pair("limit", &limit.to_string());
            if let Some(cursor) = &cursor {
                url.query_pairs_mut().append_pair("cursor", cursor);
            }
            let page: Page<T> = self.fetch(doing, || Ok(self.request(Method::GET, url.clone()))).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        all.truncate(most);
        Ok(all)
    }
}

fn json(request: RequestBuilder, body: &impl Serialize) -> RequestBuilder {
    let body = serde_json::to_vec(body).expect("these bodies have string keys only");
    request.header(CONTENT_TYPE, "application/json").body(body)
}

fn if_match(request: RequestBuilder, expected: Option<&ResourceVersion>) -> RequestBuilder {
    match expected {
        Some(version) => request.header(IF_MATCH, format!("\"{}\"", version.0)),
        None => request,
    }
}
