//! Reading what functions print.

use std::sync::Arc;

use super::Functions;
use crate::names::{FunctionKey, FunctionName};
use crate::ports::{LogQuery, LogStream, Logs};
use crate::problem::Problem;
use crate::tenant::Namespace;

/// Function logs.
#[derive(Clone)]
pub struct LogsService {
    functions: Functions,
    logs: Arc<dyn Logs>,
}

impl LogsService {
    pub(super) fn new(functions: Functions, logs: Arc<dyn Logs>) -> Self {
        Self { functions, logs }
    }

    /// A function's lines, oldest first. What a call that has ended printed is among them.
    pub async fn read(&self, namespace: Namespace, name: &FunctionName, query: LogQuery) -> Result<LogStream, Problem> {
        self.functions.get(namespace, name).await?;
        self.logs.flush().await?;
        Ok(self.logs.read(&FunctionKey::new(namespace, name.clone()), query).await?)
    }
}
