//! Ports in memory: what the use-cases stand on in these tests. The adapters of both worlds have their own suites.

mod records;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use sless_core::function::Runtime;
use sless_core::page::{Page, PageRequest};
use sless_core::ports::blobs::BlobMeta;
use sless_core::ports::*;
use sless_core::resource::{Metadata, Resource, ResourceVersion};
use sless_core::*;
use tokio::sync::broadcast;
use uuid::Uuid;

pub(crate) use records::Rows;

pub(crate) fn following<T: Clone + Send + 'static>(receiver: broadcast::Receiver<T>) -> BoxStream<'static, T> {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.ok().map(|item| (item, receiver)) })
        .boxed()
}

fn paged<T>(items: impl Iterator<Item = (String, T)>, page: &PageRequest) -> Page<T> {
    let mut rest: Vec<_> =
        items.skip_while(|(key, _)| page.cursor.as_ref().is_some_and(|cursor| key <= cursor)).collect();
    let next = (rest.len() > page.limit as usize).then(|| rest[page.limit as usize - 1].0.clone());
    rest.truncate(page.limit as usize);
    Page { items: rest.into_iter().map(|(_, item)| item).collect(), next }
}

pub(crate) struct Objects<T> {
    all: Mutex<BTreeMap<(Namespace, String), T>>,
    changes: broadcast::Sender<Event<T>>,
}

impl<T: Resource> Default for Objects<T> {
    fn default() -> Self {
        Self { all: Mutex::default(), changes: broadcast::channel(1024).0 }
    }
}

impl<T: Resource> Objects<T> {
    fn missing(name: &str) -> Error {
        Error::NotFound { kind: T::KIND, name: name.to_owned() }
    }

    fn put(&self, object: &T) {
        let key = (object.metadata().namespace, object.metadata().name.clone());
        self.all.lock().unwrap().insert(key, object.clone());
        let _ = self.changes.send(Event::Applied(object.clone()));
    }

    fn present(&self, namespace: Namespace, name: &str, expected: Option<&ResourceVersion>) -> Result<T> {
        let all = self.all.lock().unwrap();
        let old = all.get(&(namespace, name.to_owned())).ok_or_else(|| Self::missing(name))?;
        if expected.is_some_and(|expected| *expected != old.metadata().resource_version) {
            return Err(Error::Conflict { kind: T::KIND, name: name.to_owned() });
        }
        Ok(old.clone())
    }
}

fn state() -> ResourceVersion {
    ResourceVersion(Uuid::now_v7().simple().to_string())
}

#[async_trait]
impl<T: Resource> Store<T> for Objects<T> {
    async fn create(&self, namespace: Namespace, name: &str, spec: T::Spec) -> Result<T> {
        if self.present(namespace, name, None).is_ok() {
            return Err(Error::AlreadyExists { kind: T::KIND, name: name.to_owned() });
        }
        let now = Timestamp::now();
        let metadata = Metadata {
            namespace,
            name: name.to_owned(),
            uid: Uuid::now_v7(),
            generation: 1,
            resource_version: state(),
            created_at: now,
            updated_at: now,
        };
        let object = T::from_parts(metadata, spec, T::Status::default());
        self.put(&object);
        Ok(object)
    }
    async fn get(&self, namespace: Namespace, name: &str) -> Result<Option<T>> {
        Ok(self.present(namespace, name, None).ok())
    }
    async fn list(&self, namespace: Namespace, page: PageRequest) -> Result<Page<T>> {
        let all = self.all.lock().unwrap();
        let own = all
            .iter()
            .filter(|((ns, _), _)| *ns == namespace)
            .map(|((_, name), object)| (name.clone(), object.clone()));
        Ok(paged(own, &page))
    }
    async fn update_spec(
        &self,
        namespace: Namespace,
        name: &str,
        expected: Option<&ResourceVersion>,
        spec: T::Spec,
    ) -> Result<T> {
        let old = self.present(namespace, name, expected)?;
        if *old.spec() == spec {
            return Ok(old);
        }
        let generation = old.metadata().generation + 1;
        let metadata = Metadata { generation, resource_version: state(), ..old.metadata().clone() };
        let object = T::from_parts(metadata, spec, old.status().clone());
        self.put(&object);
        Ok(object)
    }
    async fn update_status(&self, object: &T, status: T::Status) -> Result<T> {
        let seen = object.metadata();
        let old = self.present(seen.namespace, &seen.name, Some(&seen.resource_version))?;
        let object =
            T::from_parts(Metadata { resource_version: state(), ..old.metadata().clone() }, old.spec().clone(), status);
        self.put(&object);
        Ok(object)
    }
    async fn delete(&self, namespace: Namespace, name: &str, expected: Option<&ResourceVersion>) -> Result<T> {
        let old = self.present(namespace, name, expected)?;
        self.all.lock().unwrap().remove(&(namespace, name.to_owned()));
        let _ = self.changes.send(Event::Deleted(old.clone()));
        Ok(old)
    }
    fn watch(&self) -> BoxStream<'static, Event<T>> {
        let changes = following(self.changes.subscribe());
        let there: Vec<_> = self.all.lock().unwrap().values().cloned().map(Event::Applied).collect();
        stream::iter(there).chain(stream::iter([Event::Synced])).chain(changes).boxed()
    }
}

#[derive(Default)]
pub(crate) struct Spaces(Mutex<BTreeMap<Namespace, NamespaceInfo>>);

#[async_trait]
impl Namespaces for Spaces {
    async fn ensure(&self, namespace: Namespace) -> Result<NamespaceInfo> {
        let new = || NamespaceInfo { name: namespace, uid: Uuid::now_v7(), created_at: Timestamp::now() };
        Ok(self.0.lock().unwrap().entry(namespace).or_insert_with(new).clone())
    }
    async fn get(&self, namespace: Namespace) -> Result<Option<NamespaceInfo>> {
        Ok(self.0.lock().unwrap().get(&namespace).cloned())
    }
}

fn missing(kind: &'static str, name: impl ToString) -> Error {
    Error::NotFound { kind, name: name.to_string() }
}

#[derive(Default)]
pub(crate) struct Folder(Mutex<BTreeMap<BlobKey, Bytes>>);

#[async_trait]
impl Blobs for Folder {
    async fn put(&self, key: &BlobKey, mut bytes: ByteStream, limit: u64) -> Result<BlobMeta> {
        let mut all = Vec::new();
        while let Some(piece) = bytes.try_next().await? {
            all.extend_from_slice(&piece);
            if all.len() as u64 > limit {
                return Err(Error::TooLarge { limit });
            }
        }
        let meta = BlobMeta { digest: Digest::of(&all), size_bytes: all.len() as u64 };
        self.0.lock().unwrap().insert(key.clone(), all.into());
        Ok(meta)
    }
    async fn get(&self, key: &BlobKey) -> Result<ByteStream> {
        self.0.lock().unwrap().get(key).cloned().map(sless_core::ports::blobs::once).ok_or_else(|| missing("blob", key))
    }
    async fn exists(&self, key: &BlobKey) -> Result<bool> {
        Ok(self.0.lock().unwrap().contains_key(key))
    }
    async fn delete(&self, key: &BlobKey) -> Result<()> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }
    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<BlobKey>>> {
        let keys: Vec<_> =
            self.0.lock().unwrap().keys().filter(|key| key.as_str().starts_with(prefix)).cloned().map(Ok).collect();
        Ok(stream::iter(keys).boxed())
    }
}

pub(crate) struct Vault(
    Mutex<BTreeMap<(Namespace, SecretName), (SecretInfo, SecretValue)>>,
    broadcast::Sender<(Namespace, SecretName)>,
);

impl Default for Vault {
    fn default() -> Self {
        Self(Mutex::default(), broadcast::channel(64).0)
    }
}

#[async_trait]
impl Secrets for Vault {
    async fn put(&self, namespace: Namespace, name: &SecretName, value: SecretValue) -> Result<SecretInfo> {
        let now = Timestamp::now();
        let info = SecretInfo { name: name.clone(), created_at: now, updated_at: now };
        self.0.lock().unwrap().insert((namespace, name.clone()), (info.clone(), value));
        let _ = self.1.send((namespace, name.clone()));
        Ok(info)
    }
    async fn delete(&self, namespace: Namespace, name: &SecretName) -> Result<()> {
        self.0.lock().unwrap().remove(&(namespace, name.clone())).map(|_| ()).ok_or_else(|| missing("secret", name))
    }
    async fn list(&self, namespace: Namespace) -> Result<Vec<SecretInfo>> {
        let all = self.0.lock().unwrap();
        Ok(all.iter().filter(|((ns, _), _)| *ns == namespace).map(|(_, (info, _))| info.clone()).collect())
    }
    async fn get(&self, namespace: Namespace, name: &SecretName) -> Result<Option<SecretValue>> {
        Ok(self.0.lock().unwrap().get(&(namespace, name.clone())).map(|(_, value)| value.clone()))
    }
    fn watch(&self) -> BoxStream<'static, (Namespace, SecretName)> {
        following(self.1.subscribe())
    }
}

/// Allows `per_second` calls in all.
#[derive(Default)]
pub(crate) struct Few(Mutex<HashMap<FunctionKey, u32>>);

impl Limits for Few {
    fn take(&self, function: &FunctionKey, per_second: u32) -> Result<(), Duration> {
        let mut taken = self.0.lock().unwrap();
        let taken = taken.entry(function.clone()).or_default();
        *taken += 1;
        if *taken <= per_second { Ok(()) } else { Err(Duration::from_millis(1500)) }
    }
}

pub(crate) struct Lines(Mutex<Vec<(FunctionKey, LogLine)>>, broadcast::Sender<(FunctionKey, LogLine)>);

impl Default for Lines {
    fn default() -> Self {
        Self(Mutex::default(), broadcast::channel(1024).0)
    }
}

#[async_trait]
impl Logs for Lines {
    fn append(&self, function: &FunctionKey, lines: Vec<LogLine>) {
        for line in lines {
            self.0.lock().unwrap().push((function.clone(), line.clone()));
            let _ = self.1.send((function.clone(), line));
        }
    }
    async fn read(&self, function: &FunctionKey, query: LogQuery) -> Result<LogStream> {
        let all = self.0.lock().unwrap();
        let own = all.iter().filter(|(key, line)| key == function && query.since.is_none_or(|since| line.at >= since));
        let own: Vec<_> = own.map(|(_, line)| Ok(line.clone())).collect();
        let skip = query.tail.map_or(0, |tail| own.len().saturating_sub(tail));
        let there = stream::iter(own).skip(skip);
        if !query.follow {
            return Ok(there.boxed());
        }
        let function = function.clone();
        let new = following(self.1.subscribe())
            .filter_map(move |(key, line)| std::future::ready((key == function).then_some(Ok(line))));
        Ok(there.chain(new).boxed())
    }
    async fn delete(&self, function: &FunctionKey) -> Result<()> {
        self.0.lock().unwrap().retain(|(key, _)| key != function);
        Ok(())
    }
    async fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// Takes everything that begins as WebAssembly does; "compiles" by giving it back.
pub(crate) struct Compiler(pub(crate) Arc<Folder>);

#[async_trait]
impl Builds for Compiler {
    fn engine(&self) -> Digest {
        Digest::of(b"engine")
    }
    fn supports(&self, runtime: Runtime) -> bool {
        matches!(runtime, Runtime::Wasm | Runtime::WasmJs)
    }
    async fn check(&self, _: Runtime, source: &BlobKey) -> Result<Checked, BuildError> {
        let bytes = blobs::read(self.0.as_ref(), source, u64::MAX).await.unwrap();
        if bytes.starts_with(b"\0asm") {
            return Ok(Checked { notes: vec!["looks well".into()] });
        }
        Err(BuildError::Rejected { reason: "it does not begin with \\0asm".into(), log: String::new() })
    }
    /// The "source" is whatever the archive holds.
    async fn prepare(&self, upload: SourceUpload) -> Result<Prepared, BuildError> {
        let bytes = blobs::read(self.0.as_ref(), &upload.archive, u64::MAX).await.unwrap();
        if !bytes.starts_with(b"PK") {
            return Err(BuildError::Rejected { reason: "it is no zip".into(), log: String::new() });
        }
        let source = Digest::of(&bytes);
        self.0.put(&upload.context, blobs::once(bytes), u64::MAX).await.unwrap();
        Ok(Prepared { source, notes: vec!["a folder was stripped".into()] })
    }
    async fn build(&self, job: BuildJob) -> Result<Built, BuildError> {
        let artifact = job.sha256;
        let bytes = blobs::read(self.0.as_ref(), &job.source, u64::MAX).await.unwrap();
        let size_bytes = bytes.len() as u64;
        self.0.put(&BlobKey::artifact(&artifact), blobs::once(bytes), u64::MAX).await.unwrap();
        let log = "compiled 1 component\n".to_owned();
        Ok(Built {
            artifact,
            size_bytes,
            wasm: job.sha256,
            engine: self.engine(),
            modules: Vec::new(),
            log,
            took: Duration::from_millis(1),
        })
    }
}

pub(crate) struct Watch;

#[async_trait]
impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    async fn sleep_until(&self, instant: Timestamp) {
        let wait = instant.duration_since(Timestamp::now());
        tokio::time::sleep(wait.try_into().unwrap_or_default()).await;
    }
}
