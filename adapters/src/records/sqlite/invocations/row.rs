//! One row: how it is bound and how it is read.

use std::sync::{Arc, LazyLock, OnceLock};

use sless_core::ports::{Error, Result};
use sless_core::{ColdGrade, Invocation, InvocationId, Namespace, Outcome, TriggerKind, VersionNumber};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row as _, Sqlite};

use crate::sqlite::{failed, micros, timestamp, uuid};

/// What [`read`] reads, of `invocations i` and `functions f`.
pub(super) const COLUMNS: &str = "i.id, f.name AS function, f.uid AS function_uid, i.version, i.trigger, i.request_id, \
     i.started_at, i.duration_us, i.status, i.outcome, i.cold, i.cpu_us, i.peak_memory_bytes, i.bytes_in, i.bytes_out, i.log_tail, i.error";

const INSERTED: &str = "id, namespace_key, function_key, version, trigger, request_id, started_at, duration_us, status, \
     outcome, cold, cpu_us, peak_memory_bytes, bytes_in, bytes_out, log_tail, error";
const VALUES: &str = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

/// The statement that inserts `rows` rows: 64, 16, 4 or 1.
pub(super) fn insert_statement(rows: usize) -> &'static str {
    static STATEMENTS: [OnceLock<String>; 4] = [const { OnceLock::new() }; 4];
    let slot = match rows {
        64 => 0,
        16 => 1,
        4 => 2,
        _ => 3,
    };
    STATEMENTS[slot].get_or_init(|| {
        let values = vec![VALUES; rows].join(",");
        format!("INSERT INTO invocations ({INSERTED}) VALUES {values} ON CONFLICT (id) DO NOTHING")
    })
}

type Insert<'q> = Query<'q, Sqlite, SqliteArguments>;

/// A word that can be bound without copying it.
macro_rules! shared_word {
    ($type:ty, $value:expr) => {{
        static WORDS: LazyLock<Vec<Arc<str>>> =
            LazyLock::new(|| <$type>::ALL.iter().map(|word| word.name().into()).collect());
        Arc::clone(&WORDS[$value as usize])
    }};
}

/// Binds a row, in the order of the statement. Counts are stored as the signed number of the same bits.
pub(super) fn bind<'q>(query: Insert<'q>, row: &Invocation, namespace_key: i64, function_key: i64) -> Insert<'q> {
    query
        .bind(row.id.0.as_bytes().to_vec())
        .bind(namespace_key)
        .bind(function_key)
        .bind(i64::from(row.version.0))
        .bind(shared_word!(TriggerKind, row.trigger))
        .bind(row.request_id.clone())
        .bind(micros(row.started_at))
        .bind(row.duration_us as i64)
        .bind(i64::from(row.status))
        .bind(shared_word!(Outcome, row.outcome))
        .bind(row.cold.map(|cold| shared_word!(ColdGrade, cold)))
        .bind(row.cpu_us as i64)
        .bind(row.peak_memory_bytes as i64)
        .bind(row.bytes_in as i64)
        .bind(row.bytes_out as i64)
        .bind(row.log_tail.clone())
        .bind(row.error.clone())
}

/// Where a row is in a list.
pub(super) fn position(row: &Invocation) -> [u8; 24] {
    let mut position = [0; 24];
    position[..8].copy_from_slice(&micros(row.started_at).to_be_bytes());
    position[8..].copy_from_slice(row.id.0.as_bytes());
    position
}

/// Reads [`COLUMNS`].
pub(super) fn read(row: &SqliteRow, namespace: Namespace) -> Result<Invocation> {
    let get = failed("read an invocation");
    let text = |column| row.try_get::<&str, _>(column).map_err(&get);
    let count = |column| row.try_get::<i64, _>(column).map(|n| n as u64).map_err(&get);
    let unknown = |word: &str| Error::Corrupt {
        doing: "read an invocation",
        source: format!("`{word}` is not a known word").into(),
    };
    let cold = row.try_get::<Option<&str>, _>("cold").map_err(&get)?;
    Ok(Invocation {
        id: InvocationId(uuid(row.try_get("id").map_err(&get)?)?),
        namespace,
        function: text("function")?.parse().map_err(Error::corrupt("read an invocation's function"))?,
        function_uid: uuid(row.try_get("function_uid").map_err(&get)?)?,
        version: VersionNumber(count("version")? as u32),
        trigger: TriggerKind::from_name(text("trigger")?).ok_or_else(|| unknown("trigger"))?,
        request_id: row.try_get("request_id").map_err(&get)?,
        started_at: timestamp(row.try_get("started_at").map_err(&get)?)?,
        duration_us: count("duration_us")?,
        status: count("status")? as u16,
        outcome: Outcome::from_name(text("outcome")?).ok_or_else(|| unknown("outcome"))?,
        cold: cold.map(|word| ColdGrade::from_name(word).ok_or_else(|| unknown(word))).transpose()?,
        cpu_us: count("cpu_us")?,
        peak_memory_bytes: count("peak_memory_bytes")?,
        bytes_in: count("bytes_in")?,
        bytes_out: count("bytes_out")?,
        log_tail: text("log_tail")?.to_owned(),
        error: row.try_get("error").map_err(&get)?,
    })
}
