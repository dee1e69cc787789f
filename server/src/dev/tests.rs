use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use sless_core::ports::{self, LogLine, LogQuery, LogStream, Logs};
use sless_core::{FunctionKey, FunctionSpec, Runtime};
use sless_tests::{eventually, guests};
use tokio::sync::oneshot;

use super::*;

/// Of a builder that is none.
fn config(data: &Path) -> DevConfig {
    DevConfig {
        data: data.into(),
        port: 0,
        internal_port: 0,
        builder: vec!["/bin/false".into()],
        launcher: Launcher { program: "/bin/false".into(), args: Vec::new() },
        toolchains: Toolchains::default(),
        build_env: Vec::new(),
        idle: Duration::from_secs(1),
        engines: None,
    }
}

#[test]
fn the_file_is_its_owners_alone_and_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(DevFile::read(folder.path()).unwrap(), None);
    let mut file = DevFile { endpoint: "http://a".into(), internal: "http://b".into(), token: "t".into(), pid: 7 };
    file.write(folder.path()).unwrap();
    file.pid = 8;
    file.write(folder.path()).unwrap();
    assert_eq!(DevFile::read(folder.path()).unwrap(), Some(file));
    let mode = std::fs::metadata(folder.path().join("dev.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    DevFile::remove(folder.path());
    assert_eq!(DevFile::read(folder.path()).unwrap(), None);
    std::fs::write(folder.path().join("dev.json"), "{").unwrap();
    assert!(DevFile::read(folder.path()).unwrap_err().to_string().contains("is not what `sless dev` writes"));
}

#[test]
fn a_new_folder_is_its_owners_and_not_for_git() {
    let outer = tempfile::tempdir().unwrap();
    let data = outer.path().join("a/.sless");
    make_folder(&data).unwrap();
    make_folder(&data).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_to_string(data.join(".gitignore")).unwrap(), "*\n");
}

#[test]
fn a_secret_is_read_only_where_one_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let error = read_jwt_secret(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no `sless dev` has run"), "{error}");
    assert!(!folder.path().join("keys").exists(), "reading makes nothing");
    let key = embedded::key_file(folder.path(), JWT_KEY).unwrap();
    assert_eq!(read_jwt_secret(folder.path()).unwrap(), hex::encode(key));
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_option() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = listen(port, "--port").await.unwrap_err();
    assert_eq!(error.to_string(), format!("port {port} is taken by another program"));
    assert_eq!(error.remedy().unwrap(), "choose another port with --port PORT, or let --port 0 take a free one");
}

#[tokio::test]
async fn a_folder_in_use_is_named_with_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let opened = embedded::open(folder.path(), embedded::Options::default()).await.unwrap();
    let error = run(config(folder.path()), |_| panic!("not ready"), Shutdown::default()).await.unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.remedy().unwrap().contains("--data"));
    opened.close().await;
}

#[tokio::test]
async fn a_program_that_is_no_builder_is_found_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(config(folder.path()), |_| panic!("not ready"), Shutdown::default()).await.unwrap_err().to_string();
    assert!(error.contains("start builds") && error.contains("/bin/false"), "{error}");
}

/// Logs with a defect that comes and goes: it panics in the host's call.
struct Panicking {
    inner: Arc<dyn Logs>,
    now: AtomicBool,
}

#[async_trait]
impl Logs for Panicking {
    fn append(&self, function: &FunctionKey, lines: Vec<LogLine>) {
        assert!(!self.now.swap(false, Ordering::SeqCst), "on purpose");
        self.inner.append(function, lines);
    }
    async fn read(&self, function: &FunctionKey, query: LogQuery) -> ports::Result<LogStream> {
        self.inner.read(function, query).await
    }
    async fn delete(&self, function: &FunctionKey) -> ports::Result<()> {
        self.inner.delete(function).await
    }
    async fn flush(&self) -> ports::Result<()> {
        self.inner.flush().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_panicked_is_replaced_and_its_functions_answer_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    make_folder(&data).unwrap();
    let mut opened = embedded::open(&data, embedded::Options::default()).await.unwrap();
    let logs = Arc::new(Panicking { inner: opened.logs.clone(), now: AtomicBool::new(false) });
    opened.logs = logs.clone();
    let builder = vec![sless_tests::dev::built("sless-builder").into()];
    let config = DevConfig { builder, ..config(&data) };
    let (shutdown, starts) = (Shutdown::default(), Arc::new(AtomicUsize::new(0)));
    let (tell, told) = oneshot::channel();
    let (stop, begun) = (shutdown.clone(), starts.clone());
    let serving = tokio::spawn(async move {
        let ready = |ready: &Ready| {
            begun.fetch_add(1, Ordering::SeqCst);
            let _ = tell.send(ready.clone());
        };
        let ended = serve(&config, &data, &opened, ready, &stop).await;
        opened.close().await;
        ended
    });
    let Ready { endpoint, internal, token, namespace, .. } = told.await.unwrap();

    let http = sless_tests::dev::client();
    let functions = format!("{endpoint}/v1/namespaces/{namespace}/functions");
    let ensured = http.post(format!("{endpoint}/v1/namespaces/{namespace}/ensure")).bearer_auth(&token).send().await;
    assert_eq!(ensured.unwrap().status(), 200);
    let function = serde_json::json!({ "name": "kitchen", "spec": FunctionSpec::new(Runtime::Wasm) });
    let made = http.post(&functions).bearer_auth(&token).json(&function).send().await.unwrap();
    assert_eq!(made.status(), 201, "{}", made.text().await.unwrap());
    let component = std::fs::read(guests::path("kitchen")).unwrap();
    let upload = http.post(format!("{functions}/kitchen/upload")).header("content-type", "application/wasm");
    assert_eq!(upload.bearer_auth(&token).body(component).send().await.unwrap().status(), 202);
    let invoke = async |path: &str| {
        let url = format!("{functions}/kitchen/invoke?path={path}");
        let called = http.post(url).bearer_auth(&token).send().await.ok()?;
        Some((called.status().as_u16(), called.text().await.ok()?))
    };
    let works = || async { (invoke("/hello").await? == (200, "hello\n".to_owned())).then_some(()) };
    eventually("it is built and answers", works).await;

    // In the middle of a host call: 256 lines are handed on at once.
    logs.now.store(true, Ordering::SeqCst);
    let (status, problem) = invoke("/log%3F300%2C1").await.unwrap();
    assert_eq!(status, 500, "{problem}");
    assert!(problem.contains("\"internal\""), "{problem}");
    eventually("the new host answers at the same address", works).await;
    let metrics = eventually("metrics are served again", || async {
        let answer = http.get(format!("{internal}/metrics")).send().await.ok()?;
        answer.text().await.ok()
    });
    // Counted from its start: this one has not panicked.
    assert!(metrics.await.contains("sless_host_panics_total 0"));
    assert_eq!(starts.load(Ordering::SeqCst), 1, "it said once that it is ready");
    shutdown.graceful.cancel();
    serving.await.unwrap().unwrap();
}
