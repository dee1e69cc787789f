//! The invocation log. Rows come by the ten thousand, so names are stored once and statements take many rows.

use std::collections::{BTreeSet, HashMap};

use sless_core::ports::{Error, InvocationFilter, Result};
use sless_core::{Invocation, InvocationId, Namespace, Page, PageRequest, Timestamp};
use sqlx::{Sqlite, SqliteConnection, Transaction};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::sqlite::{Database, cursor, failed, limit, micros_up, uuid};

mod row;

use row::{COLUMNS, bind, insert_statement, position, read};

/// Marks cursors of lists of invocations.
const CURSOR_TAG: u8 = b'i';
/// Rows of one statement, the most first: 64 rows make the way to the database's thread cheap, and a flush of a few
/// rows needs no statement of its own. Each size is prepared once. (One JSON array and `json_each` costs twice as much a
/// row; `cost_of_a_row` in the tests measures.)
const ROWS_A_STATEMENT: [usize; 4] = [64, 16, 4, 1];
/// Rows that one transaction deletes: some ten milliseconds, so that inserts don't queue behind a clean-up.
const ROWS_A_DELETE: i64 = 5_000;
/// Functions whose keys are remembered. Beyond it all are forgotten and looked up again.
const MAX_KNOWN: usize = 16_384;

/// The keys that stand for a function and its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Keys {
    namespace: i64,
    function: i64,
}

#[derive(Debug, Clone)]
struct Known {
    namespace: Namespace,
    function: sless_core::FunctionName,
    keys: Keys,
}

pub(super) struct InvocationTable {
    database: Database,
    /// Held from the beginning to the end of every write, so that what is remembered is what is committed.
    known: Mutex<HashMap<Uuid, Known>>,
}

impl InvocationTable {
    pub(super) fn new(database: Database) -> Self {
        Self { database, known: Mutex::default() }
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    pub(super) async fn insert(&self, rows: &[Invocation]) -> Result<()> {
        const DOING: &str = "add invocations";
        if rows.is_empty() {
            return Ok(());
        }
        let mut known = self.known.lock().await;
        let mut write = self.database.write(DOING).await?;
        // Only what is committed may be remembered.
        let mut learned: HashMap<Uuid, Known> = HashMap::new();
        let mut keys = Vec::with_capacity(rows.len());
        for row in rows {
            let same = |known: &&Known| known.namespace == row.namespace && known.function == row.function;
            let found =
                known.get(&row.function_uid).filter(same).or_else(|| learned.get(&row.function_uid).filter(same));
            keys.push(match found {
                Some(known) => known.keys,
                None => {
                    let keys = look_up(&mut write, row).await.map_err(failed(DOING))?;
                    let new = Known { namespace: row.namespace, function: row.function.clone(), keys };
                    learned.insert(row.function_uid, new);
                    keys
                }
            });
        }
        let (mut rest, mut keys) = (rows, keys.as_slice());
        for size in ROWS_A_STATEMENT {
            while rest.len() >= size {
                let mut query = sqlx::query(insert_statement(size));
                for (row, keys) in rest[..size].iter().zip(keys) {
                    query = bind(query, row, keys.namespace, keys.function);
                }
                query.execute(&mut *write).await.map_err(failed(DOING))?;
                (rest, keys) = (&rest[size..], &keys[size..]);
            }
        }
        write.commit().await.map_err(failed(DOING))?;
        if known.len() + learned.len() > MAX_KNOWN {
            known.clear();
        }
        known.extend(learned);
        Ok(())
    }

    pub(super) async fn list(
        &self,
        namespace: Namespace,
        filter: InvocationFilter,
        page: PageRequest,
    ) -> Result<Page<Invocation>> {
        let before = page.cursor.as_deref().map(decode).transpose()?;
        let limit = limit(&page);
        let Some(namespace_key) = self.namespace_key(namespace).await? else {
            return Ok(Page { items: Vec::new(), next: None });
        };
        let mut items = Vec::new();
        match &filter.function {
            None => items = self.newest(namespace, By::Namespace(namespace_key), &filter, before, limit + 1).await?,
            Some(name) => {
                // A name has more than one key where a function was deleted and made again while its rows were kept.
                let keys: Vec<i64> =
                    sqlx::query_scalar("SELECT key FROM functions WHERE namespace_key = ? AND name = ?")
                        .bind(namespace_key)
                        .bind(name.as_str())
                        .fetch_all(self.database.read())
                        .await
                        .map_err(failed("list invocations"))?;
                for key in &keys {
                    items.extend(self.newest(namespace, By::Function(*key), &filter, before, limit + 1).await?);
                }
                items.sort_by_key(|row| std::cmp::Reverse((row.started_at, row.id)));
            }
        }
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|row| cursor::encode(CURSOR_TAG, &position(row)));
        Ok(Page { items, next })
    }

    async fn newest(
        &self,
        namespace: Namespace,
        by: By,
        filter: &InvocationFilter,
        before: Option<(i64, [u8; 16])>,
        limit: usize,
    ) -> Result<Vec<Invocation>> {
        let doing = failed("list invocations");
        let (column, key) = match by {
            By::Namespace(key) => ("namespace_key", key),
            By::Function(key) => ("function_key", key),
        };
        let (before_at, before_id) = before.unwrap_or((i64::MAX, [0xff; 16]));
        let rows = sqlx::query(sqlx::AssertSqlSafe(list_statement(column)))
            .bind(key)
            .bind(filter.from.map_or(i64::MIN, micros_up))
            .bind(filter.to.map_or(i64::MAX, micros_up))
            .bind(before_at)
            .bind(before_id.as_slice())
            .bind(filter.outcome.map(|outcome| outcome.name()))
            .bind(limit as i64)
            .fetch_all(self.database.read())
            .await
            .map_err(&doing)?;
        rows.iter().map(|row| read(row, namespace)).collect()
    }

    pub(super) async fn get(&self, namespace: Namespace, id: InvocationId) -> Result<Invocation> {
        let missing = || Error::NotFound { kind: "invocation", name: id.to_string() };
        let key = self.namespace_key(namespace).await?.ok_or_else(missing)?;
        let statement = format!(
            "SELECT {COLUMNS} FROM invocations i JOIN functions f ON f.key = i.function_key WHERE i.id = ? AND i.namespace_key = ?"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(id.0.as_bytes().as_slice())
            .bind(key)
            .fetch_optional(self.database.read())
            .await
            .map_err(failed("read an invocation"))?;
        read(&row.ok_or_else(missing)?, namespace)
    }

    pub(super) async fn function_uids(&self) -> Result<BTreeSet<Uuid>> {
        let uids: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT uid FROM functions f WHERE EXISTS (SELECT 1 FROM invocations i WHERE i.function_key = f.key)",
        )
        .fetch_all(self.database.read())
        .await
        .map_err(failed("list functions that have invocations"))?;
        uids.iter().map(|bytes| uuid(bytes)).collect()
    }

    pub(super) async fn delete_function(&self, uid: Uuid) -> Result<()> {
        const DOING: &str = "forget a function's invocations";
        const KEYS: &str = "DELETE FROM functions WHERE uid = ?";
        const ROWS: &str = "DELETE FROM invocations WHERE id IN (SELECT i.id FROM functions f CROSS JOIN invocations i ON i.function_key = f.key WHERE f.uid = ? LIMIT ?)";
        loop {
            let mut known = self.known.lock().await;
            known.remove(&uid);
            let mut write = self.database.write(DOING).await?;
            let uid = uid.as_bytes().as_slice();
            let gone =
                sqlx::query(ROWS).bind(uid).bind(ROWS_A_DELETE).execute(&mut *write).await.map_err(failed(DOING))?;
            let last = gone.rows_affected() < ROWS_A_DELETE as u64;
            if last {
                sqlx::query(KEYS).bind(uid).execute(&mut *write).await.map_err(failed(DOING))?;
            }
            write.commit().await.map_err(failed(DOING))?;
            if last {
                return Ok(());
            }
        }
    }

    pub(super) async fn prune(&self, before: Timestamp, keep: u64) -> Result<u64> {
        const DOING: &str = "prune invocations";
        const OLD: &str = "DELETE FROM invocations WHERE id IN (SELECT id FROM invocations WHERE namespace_key = ? AND started_at < ? LIMIT ?)";
        // Ids sort by time, and so does the table by them: the oldest are its first pages.
        const OLDEST: &str = "DELETE FROM invocations WHERE id IN (SELECT id FROM invocations ORDER BY id LIMIT ?)";
        const UNUSED: &str =
            "DELETE FROM functions WHERE NOT EXISTS (SELECT 1 FROM invocations i WHERE i.function_key = functions.key)";
        let mut pruned = 0;
        let namespaces: Vec<i64> = sqlx::query_scalar("SELECT key FROM namespaces")
            .fetch_all(self.database.read())
            .await
            .map_err(failed(DOING))?;
        for key in namespaces {
            loop {
                let (_known, mut write) = self.lock(DOING).await?;
                let query = sqlx::query(OLD).bind(key).bind(micros_up(before)).bind(ROWS_A_DELETE);
                let gone = query.execute(&mut *write).await.map_err(failed(DOING))?.rows_affected();
                write.commit().await.map_err(failed(DOING))?;
                pruned += gone;
                if gone < ROWS_A_DELETE as u64 {
                    break;
                }
            }
        }
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM invocations")
            .fetch_one(self.database.read())
            .await
            .map_err(failed(DOING))?;
        let mut excess = (count as u64).saturating_sub(keep);
        while excess > 0 {
            let (_known, mut write) = self.lock(DOING).await?;
            let query = sqlx::query(OLDEST).bind((excess as i64).min(ROWS_A_DELETE));
            let gone = query.execute(&mut *write).await.map_err(failed(DOING))?.rows_affected();
            write.commit().await.map_err(failed(DOING))?;
            pruned += gone;
            excess = if gone == 0 { 0 } else { excess.saturating_sub(gone) };
        }
        if pruned > 0 {
            let (mut known, mut write) = self.lock(DOING).await?;
            known.clear();
            sqlx::query(UNUSED).execute(&mut *write).await.map_err(failed(DOING))?;
            write.commit().await.map_err(failed(DOING))?;
        }
        Ok(pruned)
    }

    async fn lock(
        &self,
        doing: &'static str,
    ) -> Result<(tokio::sync::MutexGuard<'_, HashMap<Uuid, Known>>, Transaction<'static, Sqlite>)> {
        let known = self.known.lock().await;
        let write = self.database.write(doing).await?;
        Ok((known, write))
    }

    async fn namespace_key(&self, namespace: Namespace) -> Result<Option<i64>> {
        sqlx::query_scalar("SELECT key FROM namespaces WHERE name = ?")
            .bind(namespace.to_string())
            .fetch_optional(self.database.read())
            .await
            .map_err(failed("find a namespace's invocations"))
    }
}

/// What a list is of.
#[derive(Debug, Clone, Copy)]
enum By {
    Namespace(i64),
    Function(i64),
}

/// The newest rows with this key. The inner query reads the index only.
pub(super) fn list_statement(column: &str) -> String {
    format!(
        "WITH page AS (
            SELECT id FROM invocations WHERE {column} = ?1 AND started_at >= ?2 AND started_at < ?3
            AND (started_at, id) < (?4, ?5) AND (?6 IS NULL OR outcome = ?6)
            ORDER BY started_at DESC, id DESC LIMIT ?7)
         SELECT {COLUMNS} FROM page CROSS JOIN invocations i ON i.id = page.id JOIN functions f ON f.key = i.function_key
         ORDER BY i.started_at DESC, i.id DESC"
    )
}

fn decode(text: &str) -> Result<(i64, [u8; 16])> {
    let bytes: [u8; 24] = cursor::decode(CURSOR_TAG, text)?.try_into().map_err(|_| Error::InvalidCursor)?;
    let (at, id) = bytes.split_at(8);
    match (at.try_into(), id.try_into()) {
        (Ok(at), Ok(id)) => Ok((i64::from_be_bytes(at), id)),
        _ => Err(Error::InvalidCursor),
    }
}

/// The keys of a row's function, made where it has none.
async fn look_up(write: &mut SqliteConnection, row: &Invocation) -> sqlx::Result<Keys> {
    // An update that changes nothing makes RETURNING answer for a row that is there.
    let namespace = sqlx::query_scalar(
        "INSERT INTO namespaces (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = name RETURNING key",
    )
    .bind(row.namespace.to_string())
    .fetch_one(&mut *write)
    .await?;
    let function = sqlx::query_scalar(
        "INSERT INTO functions (namespace_key, name, uid) VALUES (?, ?, ?)
         ON CONFLICT (uid, namespace_key, name) DO UPDATE SET name = name RETURNING key",
    )
    .bind(namespace)
    .bind(row.function.as_str())
    .bind(row.function_uid.as_bytes().as_slice())
    .fetch_one(write)
    .await?;
    Ok(Keys { namespace, function })
}
