package provider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
)

var noFilter api.ListFunctionInvocationsParams

// These drive terraform as a process of its own, as people do.

func TestAccAnInterruptedCreateLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Once the code is there the platform seems to build for ever.
	var uploaded, looked, over atomic.Bool
	w.through(func(out http.ResponseWriter, request *http.Request, _ int) bool {
		if strings.HasSuffix(request.URL.Path, "/upload") {
			uploaded.Store(true)
		}
		if request.Method == http.MethodGet && uploaded.Load() && !over.Load() && strings.HasSuffix(request.URL.Path, "/functions/f") {
			looked.Store(true)
			fmt.Fprint(out, building(w, request))
			return true
		}
		return false
	})
	c := newCLI(t, w.config("%s", component(t, "f", "")))
	apply := c.command("apply", "-auto-approve", "-no-color")
	var out strings.Builder
	apply.Stdout, apply.Stderr = &out, &out
	if err := apply.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "waiting for the build", looked.Load)
	stopped := time.Now()
	if err := apply.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := apply.Wait(); err == nil || time.Since(stopped) > 15*time.Second {
		t.Fatalf("%v after %s: %s", err, time.Since(stopped), out.String())
	}
	if !strings.Contains(out.String(), "The function was interrupted") {
		t.Fatal(out.String())
	}
	if state := c.state(); !strings.Contains(state, `"status": "tainted"`) || !strings.Contains(state, `"name": "f"`) {
		t.Fatal(state)
	}
	over.Store(true)
	if out := c.ok("plan", "-no-color"); !strings.Contains(out, "tainted, so must be replaced") {
		t.Fatal(out)
	}
	c.ok("apply", "-auto-approve")
	if _, code := c.run("plan", "-detailed-exitcode"); code != 0 {
		t.Fatalf("the plan after an apply is not empty: %d", code)
	}
	c.ok("destroy", "-auto-approve")
	if _, err := w.Function(background, "f"); !client.IsNotFound(err) {
		t.Fatal(err)
	}
}

// building is the function as if its build went on.
func building(w *world, request *http.Request) string {
	f, err := w.Function(request.Context(), "f")
	if err != nil {
		return "{}"
	}
	phase, generation := api.PhaseBuilding, int64(0)
	f.Status.Phase, f.Status.ObservedGeneration = &phase, &generation
	text, _ := json.Marshal(f)
	return string(text)
}

func TestAccAWaitThatIsTooLongIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var forever atomic.Bool
	forever.Store(true)
	w.through(func(out http.ResponseWriter, request *http.Request, _ int) bool {
		if forever.Load() && request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/functions/f") {
			fmt.Fprint(out, building(w, request))
			return true
		}
		return false
	})
	c := newCLI(t, w.config("%s", component(t, "f", `timeouts = { create = "2s" }`)))
	out, code := c.run("apply", "-auto-approve", "-no-color")
	if code == 0 || !strings.Contains(out, "The function was not done in time") || !strings.Contains(out, "timeouts.create") {
		t.Fatal(code, out)
	}
	forever.Store(false)
	c.ok("destroy", "-auto-approve")
}

func TestAccAHundredFunctions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCLI(t, w.config(`
resource "sless_function" "f" {
  count     = 100
  name      = "f${count.index}"
  runtime   = "wasm"
  component = %q
  env       = { INDEX = tostring(count.index) }
}
resource "sless_trigger" "t" {
  count    = 100
  name     = sless_function.f[count.index].name
  function = sless_function.f[count.index].name
  http     = {}
}
output "urls" { value = sless_trigger.t[*].url }
`, guest(t, "kitchen")))
	c.ok("apply", "-auto-approve", "-parallelism=100")
	if _, code := c.run("plan", "-detailed-exitcode", "-parallelism=100"); code != 0 {
		t.Fatalf("the plan after an apply is not empty: %d", code)
	}
	var urls []string
	if err := json.Unmarshal([]byte(c.ok("output", "-json", "urls")), &urls); err != nil || len(urls) != 100 {
		t.Fatal(urls, err)
	}
	for index, url := range urls {
		if status, text := get(t, url+"/env"); status != 200 || !strings.Contains(text, fmt.Sprintf("INDEX=%d\n", index)) {
			t.Fatalf("%s: %d %s", url, status, text)
		}
	}
	c.ok("destroy", "-auto-approve", "-parallelism=100")
	for index := range urls {
		if _, err := w.Function(background, fmt.Sprintf("f%d", index)); !client.IsNotFound(err) {
			t.Fatal(index, err)
		}
	}
}

func TestAccAnOlderStateIsUpgraded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCLI(t, w.config("%s", component(t, "f", "memory_mb = 32")))
	c.ok("apply", "-auto-approve")
	var state map[string]any
	if err := json.Unmarshal([]byte(c.state()), &state); err != nil {
		t.Fatal(err)
	}
	instance := state["resources"].([]any)[0].(map[string]any)["instances"].([]any)[0].(map[string]any)
	instance["schema_version"] = 0
	instance["attributes"] = map[string]any{"id": "f", "name": "f", "runtime": "wasm", "component": guest(t, "hello"), "memory": 32, "code_hash": "x"}
	delete(instance, "private")
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	c.write("terraform.tfstate", string(text))
	if out, code := c.run("plan", "-detailed-exitcode", "-no-color"); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	c.ok("apply", "-auto-approve")
	if got := c.state(); !strings.Contains(got, `"schema_version": 1`) || strings.Contains(got, "code_hash") {
		t.Fatal(got)
	}
	c.ok("destroy", "-auto-approve")
}

// A token that another resource makes is known when that is applied; until then nothing can be asked, and nothing is.
func TestAccAConfigurationThatComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := fmt.Sprintf("resource \"terraform_data\" \"token\" { input = %q }\nprovider \"sless\" {\n  endpoint = %q\n  token = terraform_data.token.output\n}\n",
		w.token, w.endpoint) + component(t, "f", "")
	c := newCLI(t, config)
	c.ok("apply", "-auto-approve")
	if _, code := c.run("plan", "-detailed-exitcode"); code != 0 {
		t.Fatalf("the plan after an apply is not empty: %d", code)
	}
	// The token is made anew: the function can't be read meanwhile, and is not lost.
	out := c.ok("plan", "-no-color", "-replace=terraform_data.token")
	if !strings.Contains(out, "was not read") || strings.Contains(out, "sless_function.f will be") {
		t.Fatal(out)
	}
	c.ok("apply", "-auto-approve", "-replace=terraform_data.token")
	c.ok("destroy", "-auto-approve")
}
