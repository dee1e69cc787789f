package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/identity"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/provider"
)

// The acceptance tests drive the installed terraform against a `sless dev` that they start themselves. They run with
// TF_ACC=1 and need the built program (SLESS_PROGRAM, else that of cargo's target folder) and the built guests (SLESS_GUESTS,
// else those of the cache).

// dev is the platform that all tests of a run share; each has a tenant of its own.
var dev struct {
	endpoint, program, data string
	process                 *exec.Cmd
}

func TestMain(m *testing.M) {
	if os.Getenv("TF_ACC") == "" {
		os.Exit(m.Run())
	}
	// The tests' own environment must not configure the provider.
	for _, variable := range []string{"SLESS_ENDPOINT", "SLESS_TOKEN", "SLESS_IOT_ENDPOINT", "SLESS_NUBES_ENDPOINT"} {
		os.Unsetenv(variable)
	}
	os.Setenv("CHECKPOINT_DISABLE", "1")
	folder, err := os.MkdirTemp("", "sless-acceptance-")
	if err == nil {
		err = startDev(folder)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "the acceptance tests can't run:", err)
	} else {
		code = m.Run()
		stop(dev.process)
	}
	os.RemoveAll(folder)
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

func startDev(folder string) error {
	if dev.program = os.Getenv("SLESS_PROGRAM"); dev.program == "" {
		target := os.Getenv("CARGO_TARGET_DIR")
		if target == "" {
			target = "../../../target"
		}
		dev.program = filepath.Join(target, "debug/sless")
	}
	dev.data = filepath.Join(folder, "data")
	log, err := os.Create(filepath.Join(folder, "dev.log"))
	if err != nil {
		return err
	}
	dev.process = exec.Command(dev.program, "dev", "--port", "0", "--data", dev.data)
	dev.process.Env = []string{}
	dev.process.Stderr = log
	if err := dev.process.Start(); err != nil {
		return fmt.Errorf("%w; build it with `cargo build --workspace --bins`, or name it in SLESS_PROGRAM", err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var told struct {
			Endpoint string `json:"endpoint"`
			PID      int    `json:"pid"`
		}
		text, err := os.ReadFile(filepath.Join(dev.data, "dev.json"))
		if err == nil && json.Unmarshal(text, &told) == nil && told.PID == dev.process.Process.Pid {
			if answer, err := http.Get(told.Endpoint + "/v1/openapi.json"); err == nil {
				answer.Body.Close()
				dev.endpoint = told.Endpoint
				return nil
			}
		}
	}
	text, _ := os.ReadFile(log.Name())
	stop(dev.process)
	return fmt.Errorf("`sless dev` was not ready in time: %s", text)
}

func stop(process *exec.Cmd) {
	if process.Process.Signal(os.Interrupt) != nil {
		return
	}
	done := make(chan struct{})
	go func() { _ = process.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = process.Process.Kill()
	}
}

// world is a test's own tenant.
type world struct {
	*client.Client
	t         *testing.T
	endpoint  string
	token     string
	subject   string
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	subject := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	signer := exec.Command(dev.program, "token", "--subject", subject, "--lifetime", "1h")
	signer.Env = []string{"SLESS_DATA=" + dev.data}
	out, err := signer.Output()
	if err != nil {
		t.Fatalf("sless token: %v", err)
	}
	w := &world{t: t, endpoint: dev.endpoint, token: strings.TrimSpace(string(out)), subject: subject, namespace: identity.Namespace(subject)}
	if w.Client, err = client.New(w.endpoint, w.token, w.namespace, "acceptance"); err != nil {
		t.Fatal(err)
	}
	return w
}

// config is a configuration with the provider's block.
func (w *world) config(format string, values ...any) string {
	return fmt.Sprintf("provider \"sless\" {\n  endpoint = %q\n  token = %q\n}\n", w.endpoint, w.token) + fmt.Sprintf(format, values...)
}

// guest is a built component.
func guest(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("SLESS_GUESTS")
	if folder == "" {
		cache, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(cache, ".cache/sless/guests")
	}
	path := filepath.Join(folder, name+".wasm")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; build it with `cargo xtask guests`, or name its folder in SLESS_GUESTS", err)
	}
	return path
}

// file is a file of a test.
func file(t *testing.T, name string, bytes []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// factories serve the provider in the test's process.
var factories = map[string]func() (tfprotov6.ProviderServer, error){
	"sless": providerserver.NewProtocol6WithError(provider.New("acceptance")()),
}

// get calls a function.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// front stands before the platform: it counts the requests, and a test may answer one in its place.
type front struct {
	mutex sync.Mutex
	seen  []string
	// instead answers a request and says that it did.
	instead func(w http.ResponseWriter, r *http.Request, nth int) bool
}

// through puts a front before the world's platform.
func (w *world) through(instead func(http.ResponseWriter, *http.Request, int) bool) *front {
	target, err := url.Parse(w.endpoint)
	if err != nil {
		w.t.Fatal(err)
	}
	f := &front{instead: instead}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		nth := f.count(request)
		if f.instead != nil && f.instead(out, request, nth) {
			return
		}
		proxy.ServeHTTP(out, request)
	}))
	w.t.Cleanup(server.Close)
	w.endpoint = server.URL
	return f
}

// count remembers a request; it answers how many such there were before.
func (f *front) count(request *http.Request) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	what := request.Method + " " + request.URL.Path
	nth := 0
	for _, seen := range f.seen {
		if seen == what {
			nth++
		}
	}
	f.seen = append(f.seen, what)
	return nth
}

// forget forgets all requests so far and answers them.
func (f *front) forget() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}

// changes are those requests that change something.
func changes(requests []string) []string {
	var changing []string
	for _, request := range requests {
		if !strings.HasPrefix(request, "GET ") && !strings.HasSuffix(request, "/ensure") {
			changing = append(changing, request)
		}
	}
	return changing
}

// cli is terraform as a process of its own, with the provider as a built program.
type cli struct {
	t      *testing.T
	folder string
	env    []string
}

var built struct {
	once   sync.Once
	folder string
	err    error
}

func newCLI(t *testing.T, config string, env ...string) *cli {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "sless-provider-"); built.err == nil {
			build := exec.Command("go", "build", "-o", filepath.Join(built.folder, "terraform-provider-sless"), "../..")
			if out, err := build.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("%w: %s", err, out)
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	c := &cli{t: t, folder: t.TempDir()}
	settings := file(t, "terraform.rc", fmt.Appendf(nil, "provider_installation {\n  dev_overrides {\n    %q = %q\n  }\n  direct {}\n}\n", provider.Address, built.folder))
	c.env = append(append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1"), env...)
	c.write("main.tf", "terraform {\n  required_providers {\n    sless = { source = \""+provider.Address+"\" }\n  }\n}\n"+config)
	return c
}

func (c *cli) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.folder, name), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cli) command(words ...string) *exec.Cmd {
	command := exec.Command("terraform", words...)
	command.Dir, command.Env = c.folder, c.env
	return command
}

// run answers what terraform printed, and its exit code.
func (c *cli) run(words ...string) (string, int) {
	c.t.Helper()
	out, err := c.command(words...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// ok is a run that has to succeed.
func (c *cli) ok(words ...string) string {
	c.t.Helper()
	out, code := c.run(words...)
	if code != 0 {
		c.t.Fatalf("terraform %s ended with %d:\n%s", strings.Join(words, " "), code, out)
	}
	return out
}

func (c *cli) state() string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, "terraform.tfstate"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// eventually awaits a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// otherComponent is a component of the same behaviour and other bytes: with a custom section more.
func otherComponent(t *testing.T, name string) string {
	t.Helper()
	component, err := os.ReadFile(guest(t, name))
	if err != nil {
		t.Fatal(err)
	}
	// Section 0, 6 bytes: a name of 4 bytes and one byte of content.
	return file(t, name+".wasm", append(bytes.Clone(component), 0, 6, 4, 'n', 'o', 't', 'e', 1))
}

var background = context.Background()
