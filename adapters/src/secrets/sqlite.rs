//! Secrets in SQLite, each encrypted with XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03: ChaCha20-Poly1305 of RFC 8439
//! with a nonce long enough to be drawn at random for ever).
//!
//! The namespace and the name are associated data: a row that is copied to another name does not decrypt.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use sless_core::Namespace;
use sless_core::names::SecretName;
use sless_core::ports::secrets::MAX_SECRET_BYTES;
use sless_core::ports::{Clock, Error, Result, SecretInfo, SecretValue, Secrets};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::sqlite::feed::{self, Feed, MAX_TOMBSTONES, Subscription};
use crate::sqlite::{Database, detached, failed, micros, timestamp};

const KIND: &str = "secret";
const NONCE_BYTES: usize = 24;
/// Changes that a watcher reads at once.
const BATCH: i64 = 256;
/// Until a database that does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// Secrets in a database.
#[derive(Clone)]
pub(crate) struct SqliteSecrets {
    database: Database,
    clock: Arc<dyn Clock>,
    cipher: XChaCha20Poly1305,
    feed: Arc<Feed>,
}

impl SqliteSecrets {
    /// Secrets under a key.
    pub(crate) async fn new(database: Database, key: &[u8; 32], clock: Arc<dyn Clock>) -> Result<Self> {
        let newest = feed::forget(&database, &[KIND]).await?;
        let feed = Feed::new(KIND, newest, MAX_TOMBSTONES);
        Ok(Self { database, clock, cipher: XChaCha20Poly1305::new(key.into()), feed })
    }
}

/// What a ciphertext is bound to: where it belongs. A namespace has no `/`, so no two places share it.
fn associated(namespace: Namespace, name: &SecretName) -> String {
    format!("sless secret v1\0{namespace}/{name}")
}

#[async_trait]
impl Secrets for SqliteSecrets {
    async fn put(&self, namespace: Namespace, name: &SecretName, value: SecretValue) -> Result<SecretInfo> {
        const DOING: &str = "write a secret";
        if value.0.len() > MAX_SECRET_BYTES {
            return Err(Error::TooLarge { limit: MAX_SECRET_BYTES as u64 });
        }
        let (this, name) = (self.clone(), name.clone());
        detached(DOING, async move {
            let mut nonce = [0; NONCE_BYTES];
            getrandom::fill(&mut nonce).map_err(Error::unavailable("draw a nonce"))?;
            let associated = associated(namespace, &name);
            let payload = Payload { msg: value.0.as_bytes(), aad: associated.as_bytes() };
            let ciphertext = this
                .cipher
                .encrypt(&XNonce::from(nonce), payload)
                .map_err(|_| Error::Corrupt { doing: "encrypt a secret", source: "the cipher refused it".into() })?;
            let now = micros(this.clock.now());
            let mut write = this.database.write(DOING).await?;
            let version = feed::next_version(&mut write).await?;
            let created_at = sqlx::query_scalar(
                "INSERT INTO secrets (namespace, name, version, created_at, updated_at, nonce, ciphertext)
                 VALUES (?, ?, ?, ?, ?, ?, ?)
                 ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version,
                 updated_at = excluded.updated_at, nonce = excluded.nonce, ciphertext = excluded.ciphertext
                 RETURNING created_at",
            )
            .bind(namespace.to_string())
            .bind(name.as_str())
            .bind(version)
            .bind(now)
            .bind(now)
            .bind(nonce.as_slice())
            .bind(ciphertext)
            .fetch_one(&mut *write)
            .await
            .map_err(failed(DOING))?;
            write.commit().await.map_err(failed(DOING))?;
            this.feed.publish(version);
            Ok(SecretInfo { name, created_at: timestamp(created_at)?, updated_at: timestamp(now)? })
        })
        .await
    }

    async fn delete(&self, namespace: Namespace, name: &SecretName) -> Result<()> {
        const DOING: &str = "remove a secret";
        let (this, name) = (self.clone(), name.clone());
        detached(DOING, async move {
            let mut write = this.database.write(DOING).await?;
            let gone = sqlx::query("DELETE FROM secrets WHERE namespace = ? AND name = ?")
                .bind(namespace.to_string())
                .bind(name.as_str())
                .execute(&mut *write)
                .await
                .map_err(failed(DOING))?;
            if gone.rows_affected() == 0 {
                return Err(Error::NotFound { kind: KIND, name: name.to_string() });
            }
            let version = feed::next_version(&mut write).await?;
            this.feed.prune(&mut write).await?;
            sqlx::query("INSERT INTO tombstones (kind, version, namespace, name, uid, generation, created_at, updated_at, spec, status) VALUES (?, ?, ?, ?, x'', 0, 0, 0, '', '')")
                .bind(KIND)
                .bind(version)
                .bind(namespace.to_string())
                .bind(name.as_str())
                .execute(&mut *write)
                .await
                .map_err(failed(DOING))?;
            write.commit().await.map_err(failed(DOING))?;
            this.feed.publish(version);
            Ok(())
        })
        .await
    }

    async fn list(&self, namespace: Namespace) -> Result<Vec<SecretInfo>> {
        let read = failed("list secrets");
        let rows = sqlx::query("SELECT name, created_at, updated_at FROM secrets WHERE namespace = ? ORDER BY name")
            .bind(namespace.to_string())
            .fetch_all(self.database.read())
            .await
            .map_err(&read)?;
        rows.iter()
            .map(|row| {
                Ok(SecretInfo {
                    name: name(row)?,
                    created_at: timestamp(row.try_get("created_at").map_err(&read)?)?,
                    updated_at: timestamp(row.try_get("updated_at").map_err(&read)?)?,
                })
            })
            .collect()
    }

    async fn get(&self, namespace: Namespace, name: &SecretName) -> Result<Option<SecretValue>> {
        let read = failed("read a secret");
        let row = sqlx::query("SELECT nonce, ciphertext FROM secrets WHERE namespace = ? AND name = ?")
            .bind(namespace.to_string())
            .bind(name.as_str())
            .fetch_optional(self.database.read())
            .await
            .map_err(&read)?;
        let Some(row) = row else { return Ok(None) };
        let nonce: [u8; NONCE_BYTES] = row
            .try_get::<&[u8], _>("nonce")
            .map_err(&read)?
            .try_into()
            .map_err(Error::corrupt("read a secret's nonce"))?;
        let associated = associated(namespace, name);
        let payload = Payload { msg: row.try_get("ciphertext").map_err(&read)?, aad: associated.as_bytes() };
        let value = self.cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| Error::Corrupt {
            doing: "decrypt a secret",
            source: "its key is another one, or the row was changed by somebody else".into(),
        })?;
        String::from_utf8(value).map(|value| Some(SecretValue(value))).map_err(Error::corrupt("decrypt a secret"))
    }

    fn watch(&self) -> BoxStream<'static, (Namespace, SecretName)> {
        let subscription = self.feed.subscribe();
        let seen = subscription.begun();
        let watcher = Watcher { database: self.database.clone(), subscription, seen, ready: VecDeque::new() };
        stream::unfold(watcher, |mut watcher| async move {
            let change = watcher.next().await?;
            Some((change, watcher))
        })
        .boxed()
    }
}

fn name(row: &SqliteRow) -> Result<SecretName> {
    let name: &str = row.try_get("name").map_err(failed("read a secret's name"))?;
    name.parse().map_err(Error::corrupt("read a secret's name"))
}

struct Watcher {
    database: Database,
    subscription: Subscription,
    seen: i64,
    ready: VecDeque<(Namespace, SecretName)>,
}

impl Watcher {
    async fn next(&mut self) -> Option<(Namespace, SecretName)> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            self.subscription.mark();
            match self.changes().await {
                Ok(changes) => self.take(changes).await,
                Err(_) if self.database.read().is_closed() => return None,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the watch of secrets could not read changes; it tries again"
                    );
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    async fn take(&mut self, changes: Vec<(i64, Namespace, SecretName)>) {
        let to = changes.last().map_or(self.seen, |change| change.0);
        if !self.subscription.passed(self.seen, to) {
            tracing::warn!("the watch of secrets fell too far behind; it names all of them again");
            self.subscription.restart();
            self.seen = 0;
            return;
        }
        self.seen = to;
        if changes.is_empty() {
            return self.subscription.changed().await;
        }
        self.ready.extend(changes.into_iter().map(|(_, namespace, name)| (namespace, name)));
    }

    async fn changes(&self) -> Result<Vec<(i64, Namespace, SecretName)>> {
        let read = failed("read changes of secrets");
        let rows = sqlx::query(
            "SELECT version, namespace, name FROM secrets WHERE version > ?1
             UNION ALL
             SELECT version, namespace, name FROM tombstones WHERE kind = ?2 AND version > ?3
             ORDER BY version LIMIT ?4",
        )
        .bind(self.seen)
        .bind(KIND)
        .bind(self.seen.max(self.subscription.begun()))
        .bind(BATCH)
        .fetch_all(self.database.read())
        .await
        .map_err(&read)?;
        rows.iter()
            .map(|row| {
                let namespace: &str = row.try_get("namespace").map_err(&read)?;
                let namespace = namespace.parse().map_err(Error::corrupt("read a secret's namespace"))?;
                Ok((row.try_get("version").map_err(&read)?, namespace, name(row)?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
