//! The end of a process in two steps: the first signal lets what is under way finish, the second does not wait.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// When to end.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Take nothing new and finish what is under way.
    pub graceful: CancellationToken,
    /// End at once.
    pub now: CancellationToken,
}

/// One that SIGINT and SIGTERM set off: the first of them gracefully, the second at once. Needs a runtime.
///
/// # Errors
/// When the system gives no handler for them.
pub fn signals() -> std::io::Result<Shutdown> {
    let shutdown = Shutdown::default();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let Shutdown { graceful, now } = shutdown.clone();
    tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        tracing::info!("finishing what is under way; a second signal ends at once");
        graceful.cancel();
        either(&mut interrupt, &mut terminate).await;
        now.cancel();
    });
    Ok(shutdown)
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! {
        _ = a.recv() => {}
        _ = b.recv() => {}
    }
}
