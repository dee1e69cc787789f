//! SQLite as all its users here have it: write-ahead log, one connection that writes, a few that read, migrations from
//! the binary.
//!
//! A write runs as a task of its own ([`detached`]): a caller that goes away in between can't part a commit from what
//! must follow it.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use sless_core::ports::{Error, Result};
use sless_core::{Timestamp, page};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqlSafeStr, Sqlite, Transaction};

pub(crate) mod cursor;
pub(crate) mod feed;

/// Connections that read. Each has a thread; more than a few can't be busy at once on a developer's machine.
const READERS: u32 = 3;
/// Of each reader, in KiB (negative: SQLite's way to say so). The system has the file's pages in memory anyway; a reader
/// that once went through a large table would keep 2 MB of copies.
const READER_CACHE: &str = "-256";
/// How long to wait for another connection's lock. Writers queue for the one connection, so only checkpoints contend.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to queue for a connection before the store counts as not answering.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);
/// Pages (of 4 KiB) after which the log is copied into the database: 16 MiB, so that a stream of rows pays for it rarely.
const CHECKPOINT_PAGES: &str = "4096";
/// What the log file is cut to after a checkpoint.
const LOG_FILE_BYTES: &str = "33554432";

/// What survives what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A commit survives a loss of power.
    Power,
    /// A commit survives the end of the process.
    Process,
}

/// One schema change: number, name, statements.
pub(crate) type Step = (i64, &'static str, &'static str);

/// Why a database does not open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("its schema has step {found}, this program knows {known}")]
    Newer { found: i64, known: i64 },
    #[error("open the database")]
    Sqlx(#[from] sqlx::Error),
    #[error("bring the schema up to date")]
    Migrate(#[from] MigrateError),
}

/// A database file.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Database {
    /// Opens or makes it and brings its schema up to date.
    pub(crate) async fn open(path: &Path, steps: &[Step], durability: Durability) -> Result<Self, OpenError> {
        let synchronous = match durability {
            Durability::Power => SqliteSynchronous::Full,
            Durability::Process => SqliteSynchronous::Normal,
        };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            .pragma("journal_size_limit", LOG_FILE_BYTES)
            .disable_statement_logging();
        let pool = || SqlitePoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).test_before_acquire(false);
        let writer =
            pool().max_connections(1).idle_timeout(None).max_lifetime(None).connect_with(options.clone()).await?;
        migrate(&writer, steps).await?;
        let readers = pool()
            .max_connections(READERS)
            .connect_lazy_with(options.pragma("query_only", "ON").pragma("cache_size", READER_CACHE));
        Ok(Self { writer, readers })
    }

    /// Begins a transaction that writes. Dropping it takes it back.
    pub(crate) async fn write(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(failed(doing))
    }

    /// Where to read.
    pub(crate) fn read(&self) -> &SqlitePool {
        &self.readers
    }

    /// Ends all connections after what they are doing.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        // The last connection to leave copies the log into the database and removes it.
        self.writer.close().await;
    }
}

async fn migrate(writer: &SqlitePool, steps: &[Step]) -> Result<(), OpenError> {
    let migrations: Vec<_> = steps
        .iter()
        .map(|(number, name, sql)| {
            Migration::new(*number, (*name).into(), MigrationType::Simple, (*sql).into_sql_str(), false)
        })
        .collect();
    let known = steps.iter().map(|step| step.0).max().unwrap_or(0);
    match Migrator::with_migrations(migrations).run(writer).await {
        Err(MigrateError::VersionMissing(found)) if found > known => Err(OpenError::Newer { found, known }),
        other => Ok(other?),
    }
}

/// Runs a write to its end, whether or not the caller stays.
pub(crate) async fn detached<T: Send + 'static>(
    doing: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.map_err(Error::unavailable(doing))?
}

/// Says what was attempted, and whether trying again may help.
pub(crate) fn failed(doing: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| {
        let unreadable = match &source {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) | sqlx::Error::Decode(_) => true,
            // SQLITE_CORRUPT and SQLITE_NOTADB (https://www.sqlite.org/rescode.html).
            sqlx::Error::Database(e) => matches!(e.code().as_deref(), Some("11" | "26")),
            _ => false,
        };
        match unreadable {
            true => Error::Corrupt { doing, source: source.into() },
            false => Error::Unavailable { doing, source: source.into() },
        }
    }
}

/// Microseconds since 1970, rounded down.
pub(crate) fn micros(at: Timestamp) -> i64 {
    // A timestamp's range in microseconds is within ±2.6e17.
    at.as_nanosecond().div_euclid(1000) as i64
}

/// The first whole microsecond that is not before.
pub(crate) fn micros_up(at: Timestamp) -> i64 {
    -((-at.as_nanosecond()).div_euclid(1000)) as i64
}

/// The instant of stored microseconds.
pub(crate) fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(Error::corrupt("read a stored time"))
}

/// A stored uid.
pub(crate) fn uuid(bytes: &[u8]) -> Result<uuid::Uuid> {
    uuid::Uuid::from_slice(bytes).map_err(Error::corrupt("read a stored uid"))
}

/// A page's size within its bounds.
pub(crate) fn limit(request: &page::PageRequest) -> usize {
    request.limit.clamp(1, page::MAX_LIMIT) as usize
}
