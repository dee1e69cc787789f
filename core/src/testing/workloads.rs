//! What [`Workloads`] promises.

use std::collections::BTreeSet;
use std::sync::Arc;

use http_body_util::BodyExt;

use super::within;
use crate::call::{Call, CallRecord};
use crate::function::FunctionSpec;
use crate::invocation::{InvocationId, TriggerKind};
use crate::ports::{BuildError, BuildJob, Workloads};
use crate::version::Revision;
use crate::{Timestamp, body};

/// Builds to try, all of one runtime.
#[derive(Debug, Clone)]
pub struct WorkloadJobs {
    /// Answers `one` to every call.
    pub one: BuildJob,
    /// Answers `two` to every call.
    pub two: BuildJob,
    /// Does not parse.
    pub broken: BuildJob,
}

/// Runs the contract of [`Workloads`]; there is no image yet.
pub async fn workloads(workloads: &dyn Workloads, jobs: WorkloadJobs) {
    let WorkloadJobs { one, two, broken } = jobs;
    assert_eq!(workloads.supports(one.runtime), Ok(()));
    let first = workloads.build(one.clone()).await.expect("a build");
    assert!(first.name.starts_with("sha256:") && first.name.len() == 71, "{}", first.name);
    assert!(first.took.is_some() && first.size_bytes > 0, "{first:?}");
    assert!(workloads.exists(&first.name).await.expect("a look"));
    let again = workloads.build(one.clone()).await.expect("a build");
    assert_eq!((&again.name, again.took), (&first.name, None), "what is there is not built again");
    let second = workloads.build(two.clone()).await.expect("a build");
    assert_ne!(first.name, second.name);
    match workloads.build(broken).await {
        Err(BuildError::Rejected { reason, log }) => assert!(!reason.is_empty() && !log.is_empty(), "{reason}: {log}"),
        other => panic!("{other:?}"),
    }
    assert!(!workloads.exists("sha256:").await.expect("a look") && !workloads.exists("../..").await.expect("a look"));

    for (job, image, says) in [(&one, &first, "one"), (&two, &second, "two")] {
        let revision = Arc::new(Revision {
            function: job.function.clone(),
            uid: job.uid,
            version: job.version,
            spec: FunctionSpec::new(job.runtime),
            env: Vec::new(),
            artifact: None,
            image: Some(image.name.clone()),
        });
        let target = workloads.target(revision.clone());
        within("prepare", target.prepare()).await.expect("it can be prepared");
        for path in ["/", "/a%2Fb?x=1"] {
            let record =
                CallRecord::new(InvocationId::now(), revision.clone(), TriggerKind::Http, None, Timestamp::now(), None);
            let request =
                http::Request::get(path).header("host", "example.org").body(body::empty()).expect("a request");
            let response = within("a call", target.call(Call { request, record })).await.expect("an answer");
            assert_eq!(response.status(), 200);
            let text = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(text, says.as_bytes());
        }
    }
    workloads.collect(&BTreeSet::from([second.name.clone()])).await.expect("it collects");
    assert!(!workloads.exists(&first.name).await.expect("a look"), "nobody needs it");
    assert!(workloads.exists(&second.name).await.expect("a look"));
}
