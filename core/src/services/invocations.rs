//! Reading the invocation log.

use std::sync::Arc;

use super::Namespaces;
use crate::invocation::{Invocation, InvocationId};
use crate::page::{Page, PageRequest};
use crate::ports::{InvocationFilter, Records};
use crate::problem::Problem;
use crate::tenant::Namespace;

/// The invocation log.
#[derive(Clone)]
pub struct Invocations {
    namespaces: Namespaces,
    records: Arc<dyn Records>,
}

impl Invocations {
    pub(super) fn new(namespaces: Namespaces, records: Arc<dyn Records>) -> Self {
        Self { namespaces, records }
    }

    /// Newest first.
    pub async fn list(
        &self,
        namespace: Namespace,
        filter: InvocationFilter,
        page: PageRequest,
    ) -> Result<Page<Invocation>, Problem> {
        self.namespaces.require(namespace).await?;
        Ok(self.records.invocations(namespace, filter, page).await?)
    }

    /// One.
    pub async fn get(&self, namespace: Namespace, id: InvocationId) -> Result<Invocation, Problem> {
        self.namespaces.require(namespace).await?;
        Ok(self.records.invocation(namespace, id).await?)
    }
}
