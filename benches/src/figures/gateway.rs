//! What the gateway adds to a call: the median through `/fn` less the median at the host's own port.

use anyhow::Result;

use crate::Args;
use crate::figure::Figure;
use crate::load::load;
use crate::servers::{Server, host, ours};
use crate::stats::turns;

/// One connection: nothing waits for another, so the difference is work and not queueing.
const CONNECTIONS: u32 = 1;

/// Microseconds that the gateway adds.
pub(super) fn added(args: &Args, name: &'static str) -> Result<Figure> {
    let (gateway, host) = (ours(args)?, host(args)?);
    let p50 = |server: &Server| Ok(load(server, CONNECTIONS, args.seconds)?.p50_us);
    let (through, alone) = turns(args.rounds, || p50(&gateway), || p50(&host))?;
    Ok(Figure::ratio(name, "µs", through - alone, "sless-host, p50", alone))
}
