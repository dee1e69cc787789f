//! Contract suites of the ports, and a clock that tests set.
//!
//! Each suite takes a port and asserts what its trait promises; every adapter runs it. A suite owns the store that it is
//! given: it makes namespaces of its own, but it also prunes and counts over all of them.

mod blobs;
mod clock;
mod limits;
mod logs;
mod records;
mod resources;
mod secrets;
mod workloads;

pub use blobs::blobs;
pub use clock::TestClock;
pub use limits::limits;
pub use logs::logs;
pub use records::records;
pub use resources::resources;
pub use secrets::secrets;
pub use workloads::{WorkloadJobs, workloads};

use std::future::Future;
use std::time::Duration;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::tenant::{Namespace, Tenant};

/// How long a suite waits for what has to happen.
const DEADLINE: Duration = Duration::from_secs(10);

/// A namespace that nobody else has.
fn namespace() -> Namespace {
    Tenant::from_subject(&uuid::Uuid::now_v7().to_string()).namespace()
}

/// `count` values of a strategy: the suites are asynchronous, which `proptest!` is not.
fn samples<S: Strategy>(count: usize, strategy: S) -> Vec<S::Value> {
    let mut runner = TestRunner::default();
    std::iter::repeat_with(|| strategy.new_tree(&mut runner).expect("the strategies here reject nothing").current())
        .take(count)
        .collect()
}

/// The result of a future that has to end.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what}: nothing came within {DEADLINE:?}"))
}
