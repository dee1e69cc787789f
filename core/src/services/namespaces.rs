//! Namespaces: made by `ensure`, looked for by everything else.

use std::sync::Arc;

use crate::ports::{self, NamespaceInfo};
use crate::problem::{Code, Problem};
use crate::tenant::Namespace;

/// Namespaces.
#[derive(Clone)]
pub struct Namespaces {
    store: Arc<dyn ports::Namespaces>,
}

impl Namespaces {
    pub(super) fn new(store: Arc<dyn ports::Namespaces>) -> Self {
        Self { store }
    }

    /// Makes the namespace where it is not there.
    pub async fn ensure(&self, namespace: Namespace) -> Result<NamespaceInfo, Problem> {
        Ok(self.store.ensure(namespace).await?)
    }

    /// [`Code::NamespaceNotFound`] where it was not ensured.
    pub async fn require(&self, namespace: Namespace) -> Result<(), Problem> {
        match self.store.get(namespace).await? {
            Some(_) => Ok(()),
            None => Err(Problem::new(
                Code::NamespaceNotFound,
                format!("namespace `{namespace}` is not there yet; POST /v1/namespaces/{namespace}/ensure makes it"),
            )),
        }
    }
}
