//! `sless bench`: loads a URL over a fixed number of connections, one request at a time each, and prints what came back.
//!
//! A closed loop: the next request waits for the answer of the last, so latency is that of a server that is not overrun.
//! Where the URL is a function's and the API can be read, the cold-start grades of the calls are printed too.

mod cold;
mod load;
mod report;

use std::time::Duration;

use jiff::Timestamp;
use sless_core::function::MAX_BODY_BYTES;

use crate::args::BenchArgs;
use crate::commands::{given, invoke};
use crate::connection::Settings;
use crate::failure::{Exit, Failure};
use crate::output::{Output, say};
use load::{Plan, Stop};
use report::Report;

pub(crate) async fn run(args: BenchArgs, settings: &Settings, out: &mut Output) -> Result<(), Failure> {
    let url: http::Uri = args.url.parse().map_err(|e| Failure::new(Exit::Usage, format!("`{}`: {e}", args.url)))?;
    let body = match &args.body {
        Some(body) => given(body, MAX_BODY_BYTES).await?,
        None => Vec::new(),
    };
    let plan = Plan {
        target: load::Target::new(&url).map_err(|e| Failure::new(Exit::Usage, format!("`{}`: {e}", args.url)))?,
        method: invoke::method(args.method.as_deref(), args.body.is_some())?,
        headers: invoke::headers(&args.header)?,
        body: body.into(),
        connections: args.connections,
        stop: match args.requests {
            Some(requests) => Stop::Requests(requests),
            None => Stop::After(args.duration),
        },
    };
    // The first request settles whether there is anything to load, before many fail alike.
    load::probe(&plan).await.map_err(|e| {
        Failure::new(Exit::Unavailable, format!("{url} is not reachable: {e}")).remedy("check the URL and that it runs")
    })?;
    say(&format!("loading {url} over {} connections …", plan.connections));
    let began = Timestamp::now();
    let measured = load::run(&plan).await;
    let cold = match settings.client() {
        Ok(client) => cold::grades(&client, &url, began, measured.answered()).await,
        Err(_) => None,
    };
    let report = Report::new(&url, &plan, &measured, cold);
    out.result(&report, report::shown)?;
    if measured.answered() == 0 {
        return Err(Failure::new(Exit::Unavailable, "no request was answered"));
    }
    Ok(())
}

/// How long a request may take: longer than any function may run.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(920);
