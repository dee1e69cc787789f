//! Objects of all kinds in one table, by SQLite.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sless_core::ports::resources::{Namespaces, Store};
use sless_core::ports::{Clock, Error, Event, NamespaceInfo, Resources, Result};
use sless_core::resource::{Metadata, Resource, ResourceVersion};
use sless_core::{Function, Namespace, Page, PageRequest, Trigger};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, Transaction};
use uuid::Uuid;

use crate::sqlite::feed::{self, Feed, MAX_TOMBSTONES};
use crate::sqlite::{Database, cursor, detached, failed, limit, micros, timestamp, uuid};

mod watch;

/// Namespaces are objects of this kind without a spec.
const NAMESPACE_KIND: &str = "namespace";
/// Marks cursors of lists of objects.
const CURSOR_TAG: u8 = b'r';

/// All kinds, in a database. Forgets what the watchers of an earlier process would have needed.
pub(crate) async fn resources(database: Database, clock: Arc<dyn Clock>) -> Result<Resources> {
    let newest = feed::forget(&database, &[Function::KIND, Trigger::KIND]).await?;
    Ok(Resources {
        namespaces: Arc::new(SqliteNamespaces { database: database.clone(), clock: Arc::clone(&clock) }),
        functions: SqliteStore::<Function>::new(database.clone(), Arc::clone(&clock), newest, MAX_TOMBSTONES),
        triggers: SqliteStore::<Trigger>::new(database, clock, newest, MAX_TOMBSTONES),
    })
}

/// Objects of one kind.
struct SqliteStore<T> {
    database: Database,
    clock: Arc<dyn Clock>,
    feed: Arc<Feed>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for SqliteStore<T> {
    fn clone(&self) -> Self {
        Self {
            database: self.database.clone(),
            clock: Arc::clone(&self.clock),
            feed: Arc::clone(&self.feed),
            kind: PhantomData,
        }
    }
}

impl<T: Resource> SqliteStore<T> {
    fn new(database: Database, clock: Arc<dyn Clock>, newest: i64, max_tombstones: i64) -> Arc<Self> {
        let feed = Feed::new(T::KIND, newest, max_tombstones);
        Arc::new(Self { database, clock, feed, kind: PhantomData })
    }

    async fn find(
        write: &mut Transaction<'static, Sqlite>,
        namespace: Namespace,
        name: &str,
    ) -> Result<Option<Stored>> {
        sqlx::query("SELECT * FROM resources WHERE kind = ? AND namespace = ? AND name = ?")
            .bind(T::KIND)
            .bind(namespace.to_string())
            .bind(name)
            .fetch_optional(&mut **write)
            .await
            .map_err(failed("read an object"))?
            .map(|row| Stored::read(&row))
            .transpose()
    }

    /// The object as it is, where it is in the expected state.
    async fn expect(
        write: &mut Transaction<'static, Sqlite>,
        namespace: Namespace,
        name: &str,
        expected: Option<&ResourceVersion>,
    ) -> Result<Stored> {
        let stored = Self::find(write, namespace, name).await?.ok_or_else(|| not_found::<T>(name))?;
        match expected {
            Some(expected) if *expected != stored.resource_version() => Err(conflict::<T>(name)),
            _ => Ok(stored),
        }
    }

    /// Stores a changed object and tells of it.
    async fn replace(&self, mut write: Transaction<'static, Sqlite>, mut stored: Stored) -> Result<T> {
        stored.version = feed::next_version(&mut write).await?;
        sqlx::query(
            "UPDATE resources SET generation = ?, version = ?, updated_at = ?, spec = ?, status = ?
             WHERE kind = ? AND namespace = ? AND name = ?",
        )
        .bind(stored.generation as i64)
        .bind(stored.version)
        .bind(stored.updated_at)
        .bind(&stored.spec)
        .bind(&stored.status)
        .bind(T::KIND)
        .bind(stored.namespace.to_string())
        .bind(&stored.name)
        .execute(&mut *write)
        .await
        .map_err(failed("change an object"))?;
        write.commit().await.map_err(failed("change an object"))?;
        self.feed.publish(stored.version);
        stored.object()
    }
}

#[async_trait]
impl<T: Resource> Store<T> for SqliteStore<T> {
    async fn create(&self, namespace: Namespace, name: &str, spec: T::Spec) -> Result<T> {
        const DOING: &str = "make an object";
        let (this, name) = (self.clone(), name.to_owned());
        detached(DOING, async move {
            let now = micros(this.clock.now());
            let (spec, status) = (to_json(&spec)?, to_json(&T::Status::default())?);
            let mut write = this.database.write(DOING).await?;
            if Self::find(&mut write, namespace, &name).await?.is_some() {
                return Err(Error::AlreadyExists { kind: T::KIND, name });
            }
            let version = feed::next_version(&mut write).await?;
            let uid = Uuid::now_v7();
            sqlx::query("INSERT INTO resources (kind, namespace, name, uid, generation, version, created_at, updated_at, spec, status) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?)")
                .bind(T::KIND)
                .bind(namespace.to_string())
                .bind(&name)
                .bind(uid.as_bytes().as_slice())
                .bind(version)
                .bind(now)
                .bind(now)
                .bind(&spec)
                .bind(&status)
                .execute(&mut *write)
                .await
                .map_err(failed(DOING))?;
            write.commit().await.map_err(failed(DOING))?;
            this.feed.publish(version);
            Stored { namespace, name, uid, generation: 1, version, created_at: now, updated_at: now, spec, status }.object()
        })
        .await
    }

    async fn get(&self, namespace: Namespace, name: &str) -> Result<Option<T>> {
        sqlx::query("SELECT * FROM resources WHERE kind = ? AND namespace = ? AND name = ?")
            .bind(T::KIND)
            .bind(namespace.to_string())
            .bind(name)
            .fetch_optional(self.database.read())
            .await
            .map_err(failed("read an object"))?
            .map(|row| Stored::read(&row)?.object())
            .transpose()
    }

    async fn list(&self, namespace: Namespace, page: PageRequest) -> Result<Page<T>> {
        let after = match &page.cursor {
            Some(text) => String::from_utf8(cursor::decode(CURSOR_TAG, text)?).map_err(|_| Error::InvalidCursor)?,
            None => String::new(),
        };
        let limit = limit(&page);
        let rows =
            sqlx::query("SELECT * FROM resources WHERE kind = ? AND namespace = ? AND name > ? ORDER BY name LIMIT ?")
                .bind(T::KIND)
                .bind(namespace.to_string())
                .bind(after)
                .bind(limit as i64 + 1)
                .fetch_all(self.database.read())
                .await
                .map_err(failed("list objects"))?;
        let mut items = rows.iter().map(|row| Stored::read(row)?.object()).collect::<Result<Vec<T>>>()?;
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| more);
        let next = last.map(|item| cursor::encode(CURSOR_TAG, item.metadata().name.as_bytes()));
        Ok(Page { items, next })
    }

    async fn update_spec(
        &self,
        namespace: Namespace,
        name: &str,
        expected: Option<&ResourceVersion>,
        spec: T::Spec,
    ) -> Result<T> {
        let (this, name, expected) = (self.clone(), name.to_owned(), expected.cloned());
        detached("change an object", async move {
            let mut write = this.database.write("change an object").await?;
            let mut stored = Self::expect(&mut write, namespace, &name, expected.as_ref()).await?;
            if stored.object::<T>()?.spec() == &spec {
                return stored.object();
            }
            stored.generation += 1;
            stored.updated_at = micros(this.clock.now());
            stored.spec = to_json(&spec)?;
            this.replace(write, stored).await
        })
        .await
    }

    async fn update_status(&self, object: &T, status: T::Status) -> Result<T> {
        let (this, expected) = (self.clone(), object.metadata().clone());
        detached("change an object", async move {
            let (namespace, name) = (expected.namespace, expected.name.as_str());
            let mut write = this.database.write("change an object").await?;
            let found = Self::find(&mut write, namespace, name).await?;
            let mut stored = found.filter(|s| s.uid == expected.uid).ok_or_else(|| not_found::<T>(name))?;
            if stored.resource_version() != expected.resource_version {
                return Err(conflict::<T>(name));
            }
            if stored.object::<T>()?.status() == &status {
                return stored.object();
            }
            stored.status = to_json(&status)?;
            this.replace(write, stored).await
        })
        .await
    }

    async fn delete(&self, namespace: Namespace, name: &str, expected: Option<&ResourceVersion>) -> Result<T> {
        const DOING: &str = "delete an object";
        let (this, name, expected) = (self.clone(), name.to_owned(), expected.cloned());
        detached(DOING, async move {
            let mut write = this.database.write(DOING).await?;
            let stored = Self::expect(&mut write, namespace, &name, expected.as_ref()).await?;
            let version = feed::next_version(&mut write).await?;
            this.feed.prune(&mut write).await?;
            sqlx::query("INSERT INTO tombstones (kind, version, namespace, name, uid, generation, created_at, updated_at, spec, status) SELECT kind, ?, namespace, name, uid, generation, created_at, updated_at, spec, status FROM resources WHERE kind = ? AND namespace = ? AND name = ?")
                .bind(version)
                .bind(T::KIND)
                .bind(namespace.to_string())
                .bind(&name)
                .execute(&mut *write)
                .await
                .map_err(failed(DOING))?;
            sqlx::query("DELETE FROM resources WHERE kind = ? AND namespace = ? AND name = ?")
                .bind(T::KIND)
                .bind(namespace.to_string())
                .bind(&name)
                .execute(&mut *write)
                .await
                .map_err(failed(DOING))?;
            write.commit().await.map_err(failed(DOING))?;
            this.feed.publish(version);
            stored.object()
        })
        .await
    }

    fn watch(&self) -> BoxStream<'static, Event<T>> {
        watch::watch(self.database.clone(), self.feed.subscribe())
    }
}

/// A row of the table.
#[derive(Debug, Clone)]
struct Stored {
    namespace: Namespace,
    name: String,
    uid: Uuid,
    generation: u64,
    version: i64,
    created_at: i64,
    updated_at: i64,
    spec: String,
    status: String,
}

impl Stored {
    fn read(row: &SqliteRow) -> Result<Self> {
        let read = failed("read an object");
        let namespace: &str = row.try_get("namespace").map_err(&read)?;
        Ok(Self {
            namespace: namespace.parse().map_err(Error::corrupt("read an object's namespace"))?,
            name: row.try_get("name").map_err(&read)?,
            uid: uuid(row.try_get("uid").map_err(&read)?)?,
            generation: row.try_get::<i64, _>("generation").map_err(&read)? as u64,
            version: row.try_get("version").map_err(&read)?,
            created_at: row.try_get("created_at").map_err(&read)?,
            updated_at: row.try_get("updated_at").map_err(&read)?,
            spec: row.try_get("spec").map_err(&read)?,
            status: row.try_get("status").map_err(&read)?,
        })
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion(self.version.to_string())
    }

    fn object<T: Resource>(&self) -> Result<T> {
        let metadata = Metadata {
            namespace: self.namespace,
            name: self.name.clone(),
            uid: self.uid,
            generation: self.generation,
            resource_version: self.resource_version(),
            created_at: timestamp(self.created_at)?,
            updated_at: timestamp(self.updated_at)?,
        };
        let spec = serde_json::from_str(&self.spec).map_err(Error::corrupt("read an object's spec"))?;
        let status = serde_json::from_str(&self.status).map_err(Error::corrupt("read an object's status"))?;
        Ok(T::from_parts(metadata, spec, status))
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(Error::corrupt("write an object as JSON"))
}

fn not_found<T: Resource>(name: &str) -> Error {
    Error::NotFound { kind: T::KIND, name: name.to_owned() }
}

fn conflict<T: Resource>(name: &str) -> Error {
    Error::Conflict { kind: T::KIND, name: name.to_owned() }
}

/// Namespaces.
struct SqliteNamespaces {
    database: Database,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Namespaces for SqliteNamespaces {
    async fn ensure(&self, namespace: Namespace) -> Result<NamespaceInfo> {
        const DOING: &str = "ensure a namespace";
        if let Some(info) = self.get(namespace).await? {
            return Ok(info);
        }
        let now = micros(self.clock.now());
        let mut write = self.database.write(DOING).await?;
        let version = feed::next_version(&mut write).await?;
        sqlx::query("INSERT INTO resources (kind, namespace, name, uid, generation, version, created_at, updated_at, spec, status) VALUES (?, ?, '', ?, 1, ?, ?, ?, '{}', '{}') ON CONFLICT DO NOTHING")
            .bind(NAMESPACE_KIND)
            .bind(namespace.to_string())
            .bind(Uuid::now_v7().as_bytes().as_slice())
            .bind(version)
            .bind(now)
            .bind(now)
            .execute(&mut *write)
            .await
            .map_err(failed(DOING))?;
        write.commit().await.map_err(failed(DOING))?;
        self.get(namespace).await?.ok_or_else(|| Error::NotFound { kind: NAMESPACE_KIND, name: namespace.to_string() })
    }

    async fn get(&self, namespace: Namespace) -> Result<Option<NamespaceInfo>> {
        let row = sqlx::query("SELECT * FROM resources WHERE kind = ? AND namespace = ? AND name = ''")
            .bind(NAMESPACE_KIND)
            .bind(namespace.to_string())
            .fetch_optional(self.database.read())
            .await
            .map_err(failed("read a namespace"))?;
        row.map(|row| {
            let stored = Stored::read(&row)?;
            Ok(NamespaceInfo { name: namespace, uid: stored.uid, created_at: timestamp(stored.created_at)? })
        })
        .transpose()
    }
}

#[cfg(test)]
mod tests;
