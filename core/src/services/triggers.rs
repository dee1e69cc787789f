//! Triggers: made, changed, deleted; the gateway knows at once.

use std::sync::Arc;

use super::{Namespaces, Routes, Settings};
use crate::names::TriggerName;
use crate::page::{Page, PageRequest};
use crate::ports::Store;
use crate::problem::Problem;
use crate::resource::ResourceVersion;
use crate::tenant::Namespace;
use crate::trigger::{Trigger, TriggerSpec};

/// Triggers.
#[derive(Clone)]
pub struct Triggers {
    namespaces: Namespaces,
    store: Arc<dyn Store<Trigger>>,
    routes: Arc<Routes>,
    settings: Arc<Settings>,
}

impl Triggers {
    pub(super) fn new(
        namespaces: Namespaces,
        store: Arc<dyn Store<Trigger>>,
        routes: Arc<Routes>,
        settings: Arc<Settings>,
    ) -> Self {
        Self { namespaces, store, routes, settings }
    }

    /// Makes a trigger. It works from now on.
    pub async fn create(&self, namespace: Namespace, name: TriggerName, spec: TriggerSpec) -> Result<Trigger, Problem> {
        self.namespaces.require(namespace).await?;
        let trigger = self.store.create(namespace, name.as_str(), spec).await?;
        self.routes.apply_trigger(&trigger);
        Ok(self.shown(trigger))
    }

    /// One.
    pub async fn get(&self, namespace: Namespace, name: &TriggerName) -> Result<Trigger, Problem> {
        self.namespaces.require(namespace).await?;
        match self.store.get(namespace, name.as_str()).await? {
            Some(trigger) => Ok(self.shown(trigger)),
            None => Err(crate::ports::Error::NotFound { kind: "trigger", name: name.to_string() }.into()),
        }
    }

    /// By name.
    pub async fn list(&self, namespace: Namespace, page: PageRequest) -> Result<Page<Trigger>, Problem> {
        self.namespaces.require(namespace).await?;
        Ok(self.store.list(namespace, page).await?.map(|trigger| self.shown(trigger)))
    }

    /// Replaces its spec.
    pub async fn update(
        &self,
        namespace: Namespace,
        name: &TriggerName,
        expected: Option<ResourceVersion>,
        spec: TriggerSpec,
    ) -> Result<Trigger, Problem> {
        self.namespaces.require(namespace).await?;
        let trigger = self.store.update_spec(namespace, name.as_str(), expected.as_ref(), spec).await?;
        self.routes.apply_trigger(&trigger);
        Ok(self.shown(trigger))
    }

    /// Deletes it. The function is not reached through it from now on.
    pub async fn delete(
        &self,
        namespace: Namespace,
        name: &TriggerName,
        expected: Option<ResourceVersion>,
    ) -> Result<(), Problem> {
        self.namespaces.require(namespace).await?;
        let trigger = self.store.delete(namespace, name.as_str(), expected.as_ref()).await?;
        self.routes.remove_trigger(&trigger);
        Ok(())
    }

    fn shown(&self, mut trigger: Trigger) -> Trigger {
        let Settings { external_url, .. } = self.settings.as_ref();
        trigger.status.url =
            Some(format!("{external_url}/fn/{}/{}", trigger.metadata.namespace, trigger.spec.function));
        trigger
    }
}
