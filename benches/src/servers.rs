//! The servers that are loaded: ours and the peers, each a process of its own, ended when its handle is dropped.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyper_util::rt::TokioIo;

use crate::Args;
use crate::artifact::{Signed, signed};

/// The first argument that makes this program the hyper peer.
pub(crate) const HYPER_WORD: &str = "__hyper";
/// The function that is called.
pub(crate) const FUNCTION: &str = "hello";
/// What the example answers with at `/`: the hyper peer sends the same bytes.
const ANSWER: &str = "{\"message\":\"hello\",\"path\":\"/\",\"query\":\"\"}\n";
/// A start with a build in an unoptimised compiler takes seconds; more is a hang.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// What to load.
    pub url: String,
    /// What every request has besides.
    pub header: Option<(&'static str, &'static str)>,
    _data: Option<tempfile::TempDir>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed, not asked: nothing of it is needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Its resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("no `Anonymous` in it")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("a number of kB")?;
        Ok(kib * 1024)
    }

    /// Asks it to end, and waits until it has: its state is on disk then.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).context("a process id")?;
        #[expect(unsafe_code, reason = "kill(2) on a child that was not waited for, so the id is its own")]
        let sent = unsafe { libc::kill(pid, libc::SIGTERM) };
        if sent != 0 {
            bail!("signal the server: {}", std::io::Error::last_os_error());
        }
        let until = Instant::now() + START_DEADLINE;
        while self.child.try_wait().context("wait for the server")?.is_none() {
            if Instant::now() > until {
                bail!("the server did not end");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// What `sless dev` says of itself.
pub(crate) struct Dev {
    /// The process.
    pub server: Server,
    /// Where its API is.
    pub endpoint: String,
    /// A token for it.
    pub token: String,
}

/// `sless dev` over a data folder that outlives it.
pub(crate) fn dev(args: &Args, data: &Path) -> Result<Dev> {
    let mut command = Command::new(args.binaries.join("sless"));
    command.arg("--data").arg(data).args(["--output", "json", "dev", "--port", "0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("start `sless dev`")?;
    let stdout = child.stdout.take().context("its output")?;
    let mut server = Server { child, url: String::new(), header: None, _data: None };
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).context("read what `sless dev` says")?;
    let ready: serde_json::Value = serde_json::from_str(&line).with_context(|| format!("`sless dev` said {line:?}"))?;
    let text = |key: &str| ready[key].as_str().map(str::to_owned).with_context(|| format!("`sless dev` said no {key}"));
    let (endpoint, token) = (text("endpoint")?, text("token")?);
    server.url = format!("{endpoint}/fn/{}/{FUNCTION}/", text("namespace")?);
    Ok(Dev { server, endpoint, token })
}

/// `sless dev` with the component deployed.
pub(crate) fn ours(args: &Args) -> Result<Server> {
    let data = tempfile::tempdir().context("make a data folder")?;
    let Dev { mut server, .. } = dev(args, data.path())?;
    deploy(args, data.path())?;
    server._data = Some(data);
    Ok(server)
}

/// Deploys the component to the `sless dev` of a data folder.
pub(crate) fn deploy(args: &Args, data: &Path) -> Result<()> {
    deploy_as(args, data, &args.component, "wasm")
}

/// Deploys a component or a folder of source to the `sless dev` of a data folder.
pub(crate) fn deploy_as(args: &Args, data: &Path, path: &Path, runtime: &str) -> Result<()> {
    let runtime = format!("--runtime={runtime}");
    // As many calls at once as there are connections, and some.
    let options = [&runtime, "--name", FUNCTION, "--concurrency=1000"].map(OsStr::new);
    sless(args, data, &[&[OsStr::new("deploy"), path.as_os_str()], &options[..]].concat()).map(drop)
}

/// What a command of `sless` prints as JSON, asked of the `sless dev` of a data folder.
pub(crate) fn sless(args: &Args, data: &Path, command: &[&OsStr]) -> Result<Vec<u8>> {
    let mut sless = Command::new(args.binaries.join("sless"));
    sless.arg("--data").arg(data).args(["--output", "json"]).args(command);
    let output = sless.output().context("start `sless`")?;
    if !output.status.success() {
        bail!("`sless` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The body of an answer, over a connection of its own.
pub(crate) fn get(url: &str) -> Result<String> {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).context("an http URL")?;
    let mut stream = TcpStream::connect(host).context("connect")?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").context("ask")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer with a body")?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "{url} answered {answer}");
    Ok(body.to_owned())
}

/// `sless-host` by itself: what the gateway calls, without the gateway.
pub(crate) fn host(args: &Args) -> Result<Server> {
    let data = tempfile::tempdir().context("make a data folder")?;
    let Signed { bytes, digest, revision, key, .. } = signed(args)?;
    let artifacts = data.path().join("artifacts");
    std::fs::create_dir(&artifacts).context("make a folder")?;
    std::fs::write(artifacts.join(digest.to_string()), bytes).context("write the artifact")?;
    let manifest = data.path().join("manifest.json");
    let text = serde_json::json!({
        "namespace": revision.function.namespace,
        "publicKey": key.to_string(),
        "functions": [{
            "name": revision.function.name,
            "uid": revision.uid,
            "version": revision.version,
            "spec": revision.spec,
            "artifact": revision.artifact,
        }],
    });
    std::fs::write(&manifest, text.to_string()).context("write the manifest")?;
    let port = free_port()?;
    let mut command = Command::new(args.binaries.join("sless-host"));
    command.arg("serve").arg("--manifest").arg(manifest).arg("--artifacts").arg(artifacts);
    command.arg("--cache").arg(data.path().join("cache")).args(["--listen", &format!("127.0.0.1:{port}")]);
    let mut server = started(command, port)?;
    server.header = Some(("x-sless-function", FUNCTION));
    server._data = Some(data);
    Ok(server)
}

/// How `wasmtime serve` is set up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Serve {
    /// Its defaults: no pool.
    Plain,
    /// With the pooling allocator.
    Pooled,
    /// And with memory, tables and stacks kept resident, reset by pagemap scan.
    Tuned,
}

/// The peer `wasmtime serve`.
pub(crate) fn wasmtime_serve(args: &Args, how: Serve) -> Result<Server> {
    let port = free_port()?;
    let mut command = Command::new(&args.peer);
    command.args(["serve", "-S", "cli=y", "--addr", &format!("127.0.0.1:{port}")]);
    // The defaults with a pool are ours: code that is optimised for speed and memory images that are copied on write.
    command.args(["-O", if matches!(how, Serve::Plain) { "pooling-allocator=n" } else { "pooling-allocator=y" }]);
    if matches!(how, Serve::Tuned) {
        for option in [
            "pooling-memory-keep-resident=16777216",
            "pooling-table-keep-resident=1048576",
            "pooling-async-stack-keep-resident=65536",
            "pooling-pagemap-scan=auto",
        ] {
            command.args(["-O", option]);
        }
    }
    command.arg(&args.component);
    started(command, port)
}

/// The limit: hyper that answers the same bytes.
pub(crate) fn hyper() -> Result<Server> {
    let port = free_port()?;
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args([HYPER_WORD, &port.to_string()]);
    started(command, port)
}

/// What a child runs as the hyper peer.
#[tokio::main]
pub(crate) async fn serve_hyper() -> Result<()> {
    let port = std::env::args().nth(2).and_then(|port| port.parse().ok()).context("a port")?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.context("listen")?;
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(|_| async {
                let body = http_body_util::Full::new(bytes::Bytes::from_static(ANSWER.as_bytes()));
                http::Response::builder().header("content-type", "application/json").body(body)
            });
            // A client that goes away ends its connection; that is no error of ours.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// Starts it and waits until it accepts.
fn started(mut command: Command, port: u16) -> Result<Server> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn();
    let child = child.with_context(|| format!("start {}", command.get_program().display()))?;
    let mut server = Server { child, url: format!("http://127.0.0.1:{port}/"), header: None, _data: None };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let until = Instant::now() + START_DEADLINE;
    while TcpStream::connect(address).is_err() {
        if let Some(status) = server.child.try_wait().context("look at the server")? {
            bail!("{} ended with {status}", command.get_program().display());
        }
        if Instant::now() > until {
            bail!("{} does not answer at {address}", command.get_program().display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr().context("its address")?.port())
}
