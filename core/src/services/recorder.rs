//! The invocation log's writing side: calls take a slot before they begin and leave a row when they end; one task
//! writes rows in batches. A row is lost only if the process is killed within [`FLUSH_INTERVAL`], or if the store
//! refuses for longer than the queue has room (then calls go on, and the loss is counted).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::invocation::Invocation;
use crate::ports::Records;

/// Rows that wait to be written: two seconds of the fastest traffic that one host has shown (25,000 calls a second).
pub const QUEUE_ROWS: usize = 50_000;
/// How long a row waits for others to be written with.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(100);
/// Rows of one batch: large enough that a transaction's cost does not matter, small enough to hold no lock for long.
const BATCH_ROWS: usize = 2_000;
/// How long a call waits for a slot before it goes on without a row.
const SLOT_WAIT: Duration = Duration::from_secs(1);
/// How often a batch is tried.
const TRIES: u32 = 5;
/// How long rows of calls that still run are waited for at the end.
const LAST_ROWS_WAIT: Duration = Duration::from_secs(2);

type Subscriber = Arc<dyn Fn(&Invocation) + Send + Sync>;

/// Hands out slots for rows.
#[derive(Clone)]
pub struct Recorder {
    rows: mpsc::Sender<Invocation>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    dropped: AtomicU64,
    subscribers: RwLock<Vec<Subscriber>>,
}

/// The rows' other end.
pub struct Rows {
    rows: mpsc::Receiver<Invocation>,
    records: Arc<dyn Records>,
    shared: Arc<Shared>,
}

pub(super) fn new(records: Arc<dyn Records>) -> (Recorder, Rows) {
    let (sender, receiver) = mpsc::channel(QUEUE_ROWS);
    let shared = Arc::new(Shared::default());
    (Recorder { rows: sender, shared: shared.clone() }, Rows { rows: receiver, records, shared })
}

impl Recorder {
    /// A place for one row. None when the store has been too slow for too long: the call then leaves no row, which is
    /// counted in [`Recorder::dropped`].
    pub async fn slot(&self) -> Option<mpsc::OwnedPermit<Invocation>> {
        let sender = match self.rows.clone().try_reserve_owned() {
            Ok(slot) => return Some(slot),
            Err(mpsc::error::TrySendError::Full(sender)) => sender,
            Err(mpsc::error::TrySendError::Closed(_)) => return self.without(),
        };
        match tokio::time::timeout(SLOT_WAIT, sender.reserve_owned()).await {
            Ok(Ok(slot)) => Some(slot),
            _ => self.without(),
        }
    }

    fn without<T>(&self) -> Option<T> {
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Rows lost since the start.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Rows that wait to be written, and slots of calls under way.
    pub fn pending(&self) -> usize {
        self.rows.max_capacity() - self.rows.capacity()
    }

    /// Calls `subscriber` once a row, beside the calls' way.
    pub fn subscribe(&self, subscriber: Subscriber) {
        if let Ok(mut subscribers) = self.shared.subscribers.write() {
            subscribers.push(subscriber);
        }
    }
}

impl Rows {
    /// Writes rows until `shutdown`, then those that are left.
    pub async fn write(mut self, shutdown: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                count = self.rows.recv_many(&mut batch, BATCH_ROWS) => if count == 0 { return },
            }
            if batch.len() < BATCH_ROWS {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = tokio::time::sleep(FLUSH_INTERVAL) => {}
                }
                while batch.len() < BATCH_ROWS
                    && let Ok(row) = self.rows.try_recv()
                {
                    batch.push(row);
                }
            }
            self.insert(&mut batch).await;
        }
        self.rows.close();
        let rest = async {
            loop {
                self.insert(&mut batch).await;
                if self.rows.recv_many(&mut batch, BATCH_ROWS).await == 0 {
                    break;
                }
            }
        };
        if tokio::time::timeout(LAST_ROWS_WAIT, rest).await.is_err() {
            tracing::warn!("calls still ran at the end; their rows are not in the invocation log");
        }
    }

    async fn insert(&self, batch: &mut Vec<Invocation>) {
        if batch.is_empty() {
            return;
        }
        if let Ok(subscribers) = self.shared.subscribers.read() {
            for subscriber in subscribers.iter() {
                batch.iter().for_each(|row| subscriber(row));
            }
        }
        for attempt in 1..=TRIES {
            match self.records.insert_invocations(batch).await {
                Ok(()) => break,
                Err(error) if attempt == TRIES => {
                    self.shared.dropped.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    tracing::error!(
                        rows = batch.len(),
                        error = &error as &dyn std::error::Error,
                        "invocation rows are lost"
                    );
                }
                Err(error) => {
                    tracing::warn!(
                        attempt,
                        error = &error as &dyn std::error::Error,
                        "invocation rows could not be written yet"
                    );
                    tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
                }
            }
        }
        batch.clear();
    }
}
