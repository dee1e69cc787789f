//! Versions. Numbers go up by one for each function and are never given out twice.

use std::collections::BTreeSet;

use sless_core::artifact::ArtifactRef;
use sless_core::ports::{Error, NewVersion, Result};
use sless_core::version::VersionState;
use sless_core::{Digest, Namespace, Page, PageRequest, Version, VersionNumber};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::sqlite::{Database, cursor, failed, limit, micros, timestamp, uuid};

/// Marks cursors of lists of versions.
const CURSOR_TAG: u8 = b'v';

pub(super) struct VersionTable {
    database: Database,
}

impl VersionTable {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    pub(super) async fn begin(&self, new: NewVersion) -> Result<Version> {
        const DOING: &str = "begin a version";
        let mut write = self.database.write(DOING).await?;
        let there = sqlx::query("SELECT * FROM versions WHERE function_uid = ? AND generation = ?")
            .bind(new.uid.as_bytes().as_slice())
            .bind(new.generation as i64)
            .fetch_optional(&mut *write)
            .await
            .map_err(failed(DOING))?;
        if let Some(row) = there {
            return read(&row);
        }
        let number: i64 = sqlx::query_scalar(
            "INSERT INTO version_numbers (function_uid, newest) VALUES (?, 1)
             ON CONFLICT (function_uid) DO UPDATE SET newest = newest + 1 RETURNING newest",
        )
        .bind(new.uid.as_bytes().as_slice())
        .fetch_one(&mut *write)
        .await
        .map_err(failed(DOING))?;
        let created_at = micros(new.created_at);
        let version = Version {
            function_uid: new.uid,
            number: number_of(number)?,
            generation: new.generation,
            spec: new.spec,
            cause: new.cause,
            state: VersionState::Pending,
            source_bytes: new.source_bytes,
            build_ms: None,
            created_at: timestamp(created_at)?,
        };
        sqlx::query(
            "INSERT INTO versions (function_uid, number, generation, namespace, function, spec, cause, state, source_bytes, created_at, s3_key)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(new.uid.as_bytes().as_slice())
        .bind(number)
        .bind(new.generation as i64)
        .bind(new.function.namespace.to_string())
        .bind(new.function.name.as_str())
        .bind(to_json(&version.spec)?)
        .bind(to_json(&version.cause)?)
        .bind(to_json(&version.state)?)
        .bind(new.source_bytes as i64)
        .bind(created_at)
        .bind(&version.spec.s3_key)
        .execute(&mut *write)
        .await
        .map_err(failed(DOING))?;
        write.commit().await.map_err(failed(DOING))?;
        Ok(version)
    }

    pub(super) async fn set_state(
        &self,
        uid: Uuid,
        number: VersionNumber,
        state: VersionState,
        build_ms: Option<u64>,
    ) -> Result<()> {
        const DOING: &str = "set a version's state";
        let artifact = match &state {
            VersionState::Ready { artifact, .. } => artifact.as_ref(),
            _ => None,
        };
        let bytes = |digest: fn(&ArtifactRef) -> &Digest| artifact.map(|a| digest(a).as_bytes().to_vec());
        let mut write = self.database.write(DOING).await?;
        let changed = sqlx::query(
            "UPDATE versions SET state = ?, build_ms = coalesce(?, build_ms), artifact = ?, wasm = ?, engine = ?
             WHERE function_uid = ? AND number = ?",
        )
        .bind(to_json(&state)?)
        .bind(build_ms.map(|ms| ms as i64))
        .bind(bytes(|a| &a.digest))
        .bind(bytes(|a| &a.wasm))
        .bind(bytes(|a| &a.engine))
        .bind(uid.as_bytes().as_slice())
        .bind(i64::from(number.0))
        .execute(&mut *write)
        .await
        .map_err(failed(DOING))?;
        if changed.rows_affected() == 0 {
            return Err(not_found(number));
        }
        write.commit().await.map_err(failed(DOING))
    }

    pub(super) async fn get(&self, uid: Uuid, number: VersionNumber) -> Result<Version> {
        let row = sqlx::query("SELECT * FROM versions WHERE function_uid = ? AND number = ?")
            .bind(uid.as_bytes().as_slice())
            .bind(i64::from(number.0))
            .fetch_optional(self.database.read())
            .await
            .map_err(failed("read a version"))?;
        read(&row.ok_or_else(|| not_found(number))?)
    }

    pub(super) async fn list(&self, uid: Uuid, page: PageRequest) -> Result<Page<Version>> {
        let below = match &page.cursor {
            Some(text) => {
                let bytes: [u8; 4] = cursor::decode(CURSOR_TAG, text)?.try_into().map_err(|_| Error::InvalidCursor)?;
                i64::from(u32::from_be_bytes(bytes))
            }
            None => i64::MAX,
        };
        let limit = limit(&page);
        let rows =
            sqlx::query("SELECT * FROM versions WHERE function_uid = ? AND number < ? ORDER BY number DESC LIMIT ?")
                .bind(uid.as_bytes().as_slice())
                .bind(below)
                .bind(limit as i64 + 1)
                .fetch_all(self.database.read())
                .await
                .map_err(failed("list versions"))?;
        let mut items = rows.iter().map(read).collect::<Result<Vec<_>>>()?;
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| more);
        let next = last.map(|version| cursor::encode(CURSOR_TAG, &version.number.0.to_be_bytes()));
        Ok(Page { items, next })
    }

    pub(super) async fn find_artifact(
        &self,
        namespace: Namespace,
        wasm: &Digest,
        engine: &Digest,
    ) -> Result<Option<ArtifactRef>> {
        let row = sqlx::query(
            "SELECT * FROM versions WHERE namespace = ? AND wasm = ? AND engine = ? ORDER BY created_at DESC, number DESC LIMIT 1",
        )
        .bind(namespace.to_string())
        .bind(wasm.as_bytes().as_slice())
        .bind(engine.as_bytes().as_slice())
        .fetch_optional(self.database.read())
        .await
        .map_err(failed("find an artifact"))?;
        Ok(row.as_ref().map(read).transpose()?.and_then(|version| match version.state {
            VersionState::Ready { artifact, .. } => artifact,
            _ => None,
        }))
    }

    pub(super) async fn delete(&self, uid: Uuid, numbers: &[VersionNumber]) -> Result<()> {
        const DOING: &str = "delete versions";
        let mut write = self.database.write(DOING).await?;
        for number in numbers {
            sqlx::query("DELETE FROM versions WHERE function_uid = ? AND number = ?")
                .bind(uid.as_bytes().as_slice())
                .bind(i64::from(number.0))
                .execute(&mut *write)
                .await
                .map_err(failed(DOING))?;
        }
        write.commit().await.map_err(failed(DOING))
    }

    pub(super) async fn references(&self) -> Result<(BTreeSet<String>, BTreeSet<Digest>)> {
        let read = failed("collect references");
        let keys = sqlx::query_scalar("SELECT DISTINCT s3_key FROM versions WHERE s3_key IS NOT NULL")
            .fetch_all(self.database.read())
            .await
            .map_err(&read)?;
        let artifacts: Vec<Vec<u8>> =
            sqlx::query_scalar("SELECT DISTINCT artifact FROM versions WHERE artifact IS NOT NULL")
                .fetch_all(self.database.read())
                .await
                .map_err(&read)?;
        // Few versions have modules, and those have the same ones, so they have no table of their own.
        let modules: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT json_extract(module.value, '$.digest')
             FROM versions, json_each(versions.state, '$.artifact.modules') AS module",
        )
        .fetch_all(self.database.read())
        .await
        .map_err(&read)?;
        let corrupt = |why: &'static str| Error::Corrupt { doing: "collect references", source: why.into() };
        let digest = |bytes: Vec<u8>| bytes.try_into().map(Digest::from_bytes);
        let artifacts = artifacts.into_iter().map(digest).collect::<Result<BTreeSet<_>, _>>();
        let mut artifacts = artifacts.map_err(|_| corrupt("a digest is not 32 bytes"))?;
        for module in modules {
            artifacts.insert(module.parse().map_err(|_| corrupt("a module's digest is not 64 hex digits"))?);
        }
        Ok((keys.into_iter().collect(), artifacts))
    }

    pub(super) async fn function_uids(&self) -> Result<BTreeSet<Uuid>> {
        let uids: Vec<Vec<u8>> = sqlx::query_scalar("SELECT DISTINCT function_uid FROM versions")
            .fetch_all(self.database.read())
            .await
            .map_err(failed("list functions that have versions"))?;
        uids.iter().map(|bytes| uuid(bytes)).collect()
    }

    pub(super) async fn delete_function(&self, uid: Uuid) -> Result<()> {
        const DOING: &str = "forget a function's versions";
        let mut write = self.database.write(DOING).await?;
        for statement in
            ["DELETE FROM versions WHERE function_uid = ?", "DELETE FROM version_numbers WHERE function_uid = ?"]
        {
            sqlx::query(statement).bind(uid.as_bytes().as_slice()).execute(&mut *write).await.map_err(failed(DOING))?;
        }
        write.commit().await.map_err(failed(DOING))
    }
}

fn read(row: &SqliteRow) -> Result<Version> {
    let get = failed("read a version");
    let json = |column| row.try_get::<&str, _>(column).map_err(&get);
    Ok(Version {
        function_uid: uuid(row.try_get("function_uid").map_err(&get)?)?,
        number: number_of(row.try_get("number").map_err(&get)?)?,
        generation: row.try_get::<i64, _>("generation").map_err(&get)? as u64,
        spec: serde_json::from_str(json("spec")?).map_err(Error::corrupt("read a version's spec"))?,
        cause: serde_json::from_str(json("cause")?).map_err(Error::corrupt("read a version's cause"))?,
        state: serde_json::from_str(json("state")?).map_err(Error::corrupt("read a version's state"))?,
        source_bytes: row.try_get::<i64, _>("source_bytes").map_err(&get)? as u64,
        build_ms: row.try_get::<Option<i64>, _>("build_ms").map_err(&get)?.map(|ms| ms as u64),
        created_at: timestamp(row.try_get("created_at").map_err(&get)?)?,
    })
}

fn number_of(stored: i64) -> Result<VersionNumber> {
    u32::try_from(stored).map(VersionNumber).map_err(Error::corrupt("read a version's number"))
}

fn to_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(Error::corrupt("write a version as JSON"))
}

fn not_found(number: VersionNumber) -> Error {
    Error::NotFound { kind: "version", name: number.to_string() }
}
