//! `sless invocations`.

use sless_client::Client;
use sless_core::Invocation;

use crate::args::InvocationsArgs;
use crate::failure::Failure;
use crate::output::{Output, bytes, micros, say, table};

pub(crate) async fn run(args: InvocationsArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    // A function that is not there has no calls, but its name is more likely misspelt.
    client.function(args.name.as_str()).await?;
    let rows = client.invocations(args.name.as_str(), args.limit as usize).await?;
    if rows.is_empty() && !out.is_json() {
        say("no calls yet");
        return Ok(());
    }
    out.result(&rows, |rows| listed(rows))
}

pub(crate) fn listed(rows: &[Invocation]) -> String {
    table(
        ["STARTED", "STATUS", "OUTCOME", "COLD", "DURATION", "CPU", "MEMORY", "IN", "OUT", "VERSION", "ID"],
        rows.iter().map(|row| {
            [
                row.started_at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
                row.status.to_string(),
                row.outcome.to_string(),
                row.cold.map_or("-", |cold| cold.name()).to_owned(),
                micros(row.duration_us),
                micros(row.cpu_us),
                bytes(row.peak_memory_bytes),
                bytes(row.bytes_in),
                bytes(row.bytes_out),
                row.version.to_string(),
                row.id.to_string(),
            ]
        }),
    )
}
