//! A `sless dev` of the built program, driven from outside as a user would.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sless_core::Tenant;

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `sless dev` on free ports. Killed when dropped.
pub struct Dev {
    child: Running,
    data: PathBuf,
    /// Where the API and the gateway are.
    pub endpoint: String,
    /// Where health and metrics are.
    pub internal: String,
    /// The token that it printed.
    pub token: String,
    /// The namespace of that token.
    pub namespace: String,
    /// What it printed when it was ready.
    pub welcome: String,
    /// For calls; keeps connections.
    pub http: reqwest::Client,
}

/// The built program `sless`.
pub fn program() -> PathBuf {
    built("sless")
}

/// A program of the workspace, as it was built last.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("tests lie in deps/ of the profile's folder");
    // Where `build.build-dir` is set, tests lie there, and programs in the target folder.
    #[expect(clippy::disallowed_methods, reason = "cargo's own variable")]
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let profile = match (&target, profile.file_name()) {
        (Some(target), Some(name)) => target.join(name),
        _ => profile.to_owned(),
    };
    let program = profile.join(name);
    assert!(program.exists(), "{} is not there; run `cargo build --workspace`", program.display());
    program
}

/// Whether a variable is one that installers of packages go by.
fn dev_needs(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    matches!(&*name, "PATH" | "HOME")
        || ["PIP_", "NPM_CONFIG_", "npm_config_"].iter().any(|prefix| name.starts_with(prefix))
}

/// For calls; keeps connections, and knows no proxy.
pub fn client() -> reqwest::Client {
    // A process has one; the first test to ask for it sets it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// What a command answered.
pub struct Answer {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it said besides.
    pub err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Dev {
    /// Starts one on a data folder and waits until it is ready.
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// The same with more arguments.
    pub fn start_with(data: &Path, more: &[&std::ffi::OsStr]) -> Self {
        let (out, err) = (data.join("../welcome.txt"), data.join("../dev.log"));
        std::fs::create_dir_all(data).unwrap();
        let child = Command::new(program())
            .args(["dev", "--port", "0", "--data"])
            .arg(data)
            .args(more)
            .env_clear()
            // Interpreters and installers are found as on a developer's machine.
            .envs(std::env::vars_os().filter(|(name, _)| dev_needs(name)))
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::options().append(true).create(true).open(&err).unwrap())
            .spawn()
            .unwrap();
        let mut child = Running(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        let file = data.join("dev.json");
        let told = loop {
            let told: Option<Value> = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            // After a kill -9 the file of the last one is still there.
            if let Some(told) = told.filter(|told| told["pid"] == child.0.id())
                && std::fs::read_to_string(&out).unwrap().contains("sless dev is ready")
            {
                break told;
            }
            if let Some(status) = child.0.try_wait().unwrap() {
                panic!("sless dev ended with {status}: {}", std::fs::read_to_string(&err).unwrap_or_default());
            }
            assert!(Instant::now() < deadline, "sless dev was not ready in time");
            std::thread::sleep(Duration::from_millis(10));
        };
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        Self {
            child,
            data: data.to_owned(),
            endpoint: text("endpoint"),
            internal: text("internal"),
            token: text("token"),
            namespace: Tenant::from_subject("dev").namespace().to_string(),
            welcome: std::fs::read_to_string(&out).unwrap(),
            http: client(),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Runs `sless` against it, as a user in another folder would.
    pub fn sless<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        let mut command = Command::new(program());
        command.args(args).env_clear().env("SLESS_DATA", &self.data).current_dir(self.data.parent().unwrap());
        command.stdin(Stdio::null()).output().unwrap().into()
    }

    /// The same, which has to succeed; answers what it printed.
    pub fn ok<S: AsRef<std::ffi::OsStr> + Clone>(&self, args: impl IntoIterator<Item = S>) -> String {
        let args: Vec<S> = args.into_iter().collect();
        let answer = self.sless(args.clone());
        let words: Vec<_> = args.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect();
        assert_eq!(answer.code, 0, "sless {}: {}{}", words.join(" "), answer.out, answer.err);
        answer.out
    }

    /// The same as JSON.
    pub fn json<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        let mut all: Vec<std::ffi::OsString> = args.into_iter().map(|word| word.as_ref().to_owned()).collect();
        all.extend(["--output".into(), "json".into()]);
        let out = self.ok(all);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// The address of a function at the gateway.
    pub fn url(&self, function: &str) -> String {
        format!("{}/fn/{}/{function}", self.endpoint, self.namespace)
    }

    /// A request to the API with its token.
    pub fn api(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}/v1/namespaces/{}{path}", self.endpoint, self.namespace);
        self.http.request(method, url).bearer_auth(&self.token)
    }

    /// What the API has at a path.
    pub async fn get(&self, path: &str) -> Value {
        let response = self.api(reqwest::Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    /// Ends it as Ctrl-C does.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.0.wait().unwrap();
        assert!(status.success(), "it ended with {status}");
    }

    /// Ends it in the middle of whatever it does.
    pub fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }
}
