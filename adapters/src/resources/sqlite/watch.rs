//! A watch: reads changes off the tables, batch by batch.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use sless_core::ports::{Event, Result};
use sless_core::resource::Resource;
use sqlx::Row as _;

use super::Stored;
use crate::sqlite::feed::Subscription;
use crate::sqlite::{Database, failed};

/// Changes read at once. An object can be 100 KB; most have 1 KB.
const BATCH: usize = 128;
/// Until a database that does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The stream of a watch that began with the subscription. It ends when the database is closed.
pub(super) fn watch<T: Resource>(database: Database, subscription: Subscription) -> BoxStream<'static, Event<T>> {
    let watcher = Watcher::<T> { database, subscription, seen: 0, synced: false, ready: VecDeque::new() };
    stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((event, watcher))
    })
    .boxed()
}

struct Watcher<T> {
    database: Database,
    subscription: Subscription,
    /// The newest change that was read.
    seen: i64,
    synced: bool,
    ready: VecDeque<Event<T>>,
}

impl<T: Resource> Watcher<T> {
    async fn next(&mut self) -> Option<Event<T>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.subscription.mark();
            match self.changes().await {
                Ok(changes) => self.take(changes).await,
                Err(_) if self.database.read().is_closed() => return None,
                Err(error) => {
                    tracing::warn!(
                        kind = T::KIND,
                        error = &error as &dyn std::error::Error,
                        "a watch could not read changes; it tries again"
                    );
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    async fn take(&mut self, changes: Vec<(bool, Stored)>) {
        let from = self.seen;
        let to = changes.last().map_or(from, |(_, stored)| stored.version);
        if !self.subscription.passed(from, to) {
            tracing::warn!(kind = T::KIND, "a watch fell too far behind; it lists all objects again");
            self.subscription.restart();
            (self.seen, self.synced) = (0, false);
            return;
        }
        self.seen = to;
        let caught_up = changes.len() < BATCH;
        if changes.is_empty() && self.synced {
            return self.subscription.changed().await;
        }
        for (gone, stored) in changes {
            match stored.object::<T>() {
                Ok(object) => self.ready.push_back(if gone { Event::Deleted(object) } else { Event::Applied(object) }),
                Err(error) => {
                    tracing::error!(kind = T::KIND, namespace = %stored.namespace, name = stored.name, error = &error as &dyn std::error::Error, "a stored object can't be read; watchers don't see it");
                }
            }
        }
        // One answer is one state of the tables: when it has all there is, every object has been sent.
        if caught_up && !self.synced {
            self.synced = true;
            self.ready.push_back(Event::Synced);
        }
    }

    /// The changes after the last one seen, in order; true for those that are gone.
    async fn changes(&self) -> Result<Vec<(bool, Stored)>> {
        let read = failed("read changes");
        let rows = sqlx::query(
            "SELECT 0 AS gone, version, namespace, name, uid, generation, created_at, updated_at, spec, status
             FROM resources WHERE kind = ?1 AND version > ?2
             UNION ALL
             SELECT 1, version, namespace, name, uid, generation, created_at, updated_at, spec, status
             FROM tombstones WHERE kind = ?1 AND version > ?3
             ORDER BY version LIMIT ?4",
        )
        .bind(T::KIND)
        .bind(self.seen)
        .bind(self.seen.max(self.subscription.begun()))
        .bind(BATCH as i64)
        .fetch_all(self.database.read())
        .await
        .map_err(&read)?;
        rows.iter().map(|row| Ok((row.try_get::<i64, _>("gone").map_err(&read)? == 1, Stored::read(row)?))).collect()
    }
}
