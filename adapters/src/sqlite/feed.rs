//! How watchers learn of changes: the tables themselves are the queue.
//!
//! Each change of a kind has a number from the one counter. A watcher remembers the last that it has seen, asks for
//! those after it, and sleeps until told that there is a newer one. So a slow watcher holds no memory, and none can
//! miss a change between its list and its watch. Deleted objects stay as tombstones until all watchers have passed
//! them, at most [`MAX_TOMBSTONES`]; a watcher that is further behind has to begin anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sless_core::ports::Result;
use sqlx::SqliteConnection;
use tokio::sync::watch;

use super::failed;

/// Tombstones of a kind that a watcher which does not read can pin: some 20 MB at 2 KB each.
pub(crate) const MAX_TOMBSTONES: i64 = 10_000;

/// Changes of one kind.
#[derive(Debug)]
pub(crate) struct Feed {
    kind: &'static str,
    /// The newest change that is committed.
    newest: watch::Sender<i64>,
    /// Up to where each watcher needs no tombstone any more.
    positions: Mutex<Positions>,
    /// Tombstones up to here may be gone.
    horizon: AtomicI64,
    max_tombstones: i64,
}

#[derive(Debug, Default)]
struct Positions {
    next: u64,
    of: HashMap<u64, i64>,
}

impl Feed {
    /// A feed whose newest change has this number.
    pub(crate) fn new(kind: &'static str, newest: i64, max_tombstones: i64) -> Arc<Self> {
        Arc::new(Self {
            kind,
            newest: watch::Sender::new(newest),
            positions: Mutex::default(),
            horizon: AtomicI64::new(newest),
            max_tombstones,
        })
    }

    /// Tells watchers of a change, after its commit. Two that cross change nothing: the newer stands for both.
    pub(crate) fn publish(&self, version: i64) {
        self.newest.send_if_modified(|newest| {
            let newer = version > *newest;
            *newest = version.max(*newest);
            newer
        });
    }

    /// Removes tombstones that no watcher needs, in the transaction that adds one.
    ///
    /// Never the one that is being added: a watcher that begins meanwhile may have listed the object.
    pub(crate) async fn prune(&self, write: &mut SqliteConnection) -> Result<()> {
        const DOING: &str = "forget deleted objects";
        let passed = {
            let newest = *self.newest.borrow();
            let positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
            positions.of.values().copied().min().unwrap_or(newest).min(newest)
        };
        let bound: Option<i64> =
            sqlx::query_scalar("SELECT version FROM tombstones WHERE kind = ? ORDER BY version DESC LIMIT 1 OFFSET ?")
                .bind(self.kind)
                .bind(self.max_tombstones)
                .fetch_optional(&mut *write)
                .await
                .map_err(failed(DOING))?;
        let up_to = passed.max(bound.unwrap_or(0));
        self.horizon.fetch_max(up_to, Ordering::SeqCst);
        sqlx::query("DELETE FROM tombstones WHERE kind = ? AND version <= ?")
            .bind(self.kind)
            .bind(up_to)
            .execute(write)
            .await
            .map_err(failed(DOING))?;
        Ok(())
    }

    /// Begins to watch from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        let newest = self.newest.subscribe();
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = *newest.borrow();
        let id = positions.next;
        positions.next += 1;
        positions.of.insert(id, begun);
        drop(positions);
        Subscription { newest, id, begun, feed: Arc::clone(self) }
    }
}

/// A watcher's place in a feed.
#[derive(Debug)]
pub(crate) struct Subscription {
    newest: watch::Receiver<i64>,
    id: u64,
    begun: i64,
    feed: Arc<Feed>,
}

impl Subscription {
    /// Where the watch began: deletions up to here are none of its business.
    pub(crate) fn begun(&self) -> i64 {
        self.begun
    }

    /// To be called before asking the tables, so that a change during the answer wakes it again.
    pub(crate) fn mark(&mut self) {
        self.newest.mark_unchanged();
    }

    /// Says that all changes up to here were seen. False when tombstones after `from` are gone: then what was just
    /// read may lack deletions.
    pub(crate) fn passed(&self, from: i64, to: i64) -> bool {
        if self.feed.horizon.load(Ordering::SeqCst) > from.max(self.begun) {
            return false;
        }
        let mut positions = self.feed.positions.lock().unwrap_or_else(PoisonError::into_inner);
        positions.of.insert(self.id, to.max(self.begun));
        true
    }

    /// Begins anew from now on.
    pub(crate) fn restart(&mut self) {
        let mut positions = self.feed.positions.lock().unwrap_or_else(PoisonError::into_inner);
        self.begun = *self.newest.borrow_and_update();
        positions.of.insert(self.id, self.begun);
    }

    /// Returns when there is a change since [`Self::mark`].
    pub(crate) async fn changed(&mut self) {
        if self.newest.changed().await.is_err() {
            // The sender lives in the feed, which this holds.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.positions.lock().unwrap_or_else(PoisonError::into_inner).of.remove(&self.id);
    }
}

/// The next number of the one counter.
pub(crate) async fn next_version(write: &mut SqliteConnection) -> Result<i64> {
    sqlx::query_scalar("UPDATE revision SET value = value + 1 RETURNING value")
        .fetch_one(write)
        .await
        .map_err(failed("count a change"))
}

/// Removes the tombstones that watchers of an earlier process would have needed; answers the newest change.
pub(crate) async fn forget(database: &super::Database, kinds: &[&'static str]) -> Result<i64> {
    const DOING: &str = "read the newest change";
    let mut write = database.write(DOING).await?;
    for kind in kinds {
        sqlx::query("DELETE FROM tombstones WHERE kind = ?")
            .bind(*kind)
            .execute(&mut *write)
            .await
            .map_err(failed(DOING))?;
    }
    let newest =
        sqlx::query_scalar("SELECT value FROM revision").fetch_one(&mut *write).await.map_err(failed(DOING))?;
    write.commit().await.map_err(failed(DOING))?;
    Ok(newest)
}
