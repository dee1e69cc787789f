package provider_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
)

const function = "sless_function.f"

func known(attribute string, check knownvalue.Check) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(function, tfjsonpath.New(attribute), check)
}

func planned(address string, action plancheck.ResourceActionType, more ...plancheck.PlanCheck) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: append(more, plancheck.ExpectResourceAction(address, action))}
}

// gone checks that destroying leaves nothing.
func (w *world) gone(names ...string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		for _, name := range names {
			if _, err := w.Function(background, name); !client.IsNotFound(err) {
				return fmt.Errorf("function %s is still there: %v", name, err)
			}
		}
		if secrets, err := w.Secrets(background); err != nil || len(secrets) > 0 {
			return fmt.Errorf("secrets are still there: %v, %v", secrets, err)
		}
		return nil
	}
}

func component(t *testing.T, name, more string) string {
	return fmt.Sprintf("resource \"sless_function\" \"f\" {\n  name = %q\n  runtime = \"wasm\"\n  component = %q\n%s\n}\n", name, guest(t, "hello"), more)
}

func TestAccFunctionLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("first", "second"),
		Steps: []resource.TestStep{
			{
				Config: w.config("%s", component(t, "first", "")),
				ConfigStateChecks: []statecheck.StateCheck{
					known("phase", knownvalue.StringExact("Ready")), known("version", knownvalue.Int64Exact(1)),
					known("memory_mb", knownvalue.Int64Exact(128)), known("url", knownvalue.Null()),
					known("source_hash", knownvalue.StringRegexp(regexp.MustCompile("^[0-9a-f]{64}$"))),
					known("artifact_digest", knownvalue.StringRegexp(regexp.MustCompile("^[0-9a-f]{64}$"))), known("image_digest", knownvalue.Null()),
				},
			},
			// The plan after an apply is empty.
			{Config: w.config("%s", component(t, "first", "")), PlanOnly: true},
			{ResourceName: function, ImportState: true, ImportStateId: "first", ImportStateVerify: true,
				ImportStateVerifyIdentifierAttribute: "name", ImportStateVerifyIgnore: []string{"component"}},
			{ResourceName: function, ImportState: true, ImportStateId: "Not_a_name", ExpectError: regexp.MustCompile("no function's name")},
			{
				// In place, and what was built stays.
				Config: w.config("%s", component(t, "first", `
					memory_mb = 32
					limits = { cpu_ms = 500 }
					env = { A = "b" }
					egress = { allow = ["example.org:443"] }`)),
				ConfigPlanChecks: planned(function, plancheck.ResourceActionUpdate, plancheck.ExpectUnknownValue(function, tfjsonpath.New("version")),
					plancheck.ExpectKnownValue(function, tfjsonpath.New("artifact_digest"), knownvalue.StringRegexp(regexp.MustCompile("^[0-9a-f]{64}$"))),
					plancheck.ExpectKnownValue(function, tfjsonpath.New("phase"), knownvalue.StringExact("Ready"))),
				ConfigStateChecks: []statecheck.StateCheck{
					known("version", knownvalue.Int64Exact(2)),
					known("limits", knownvalue.ObjectPartial(map[string]knownvalue.Check{"cpu_ms": knownvalue.Int64Exact(500), "log_bytes": knownvalue.Int64Exact(65536)})),
				},
				Check: func(*terraform.State) error {
					f, err := w.Function(background, "first")
					if err != nil || *f.Spec.MemoryMb != 32 || (*f.Spec.Env)["A"] != "b" || *f.Spec.Limits.CPUMs != 500 || (*f.Spec.Egress.Allow)[0] != "example.org:443" {
						return fmt.Errorf("%+v, %v", f, err)
					}
					return nil
				},
			},
			{
				// What is left out has its default again, and an empty map is none.
				Config:            w.config("%s", component(t, "first", "env = {}")),
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate),
				ConfigStateChecks: []statecheck.StateCheck{known("memory_mb", knownvalue.Int64Exact(128)), known("egress", knownvalue.Null())},
			},
			{
				Config: w.config("%s", component(t, "second", "")),
				ConfigPlanChecks: planned(function, plancheck.ResourceActionReplace,
					plancheck.ExpectUnknownValue(function, tfjsonpath.New("artifact_digest")), plancheck.ExpectUnknownValue(function, tfjsonpath.New("version"))),
				Check: func(*terraform.State) error {
					if _, err := w.Function(background, "first"); !client.IsNotFound(err) {
						return fmt.Errorf("the old one is still there: %v", err)
					}
					return nil
				},
			},
		},
	})
}

func TestAccCodeThatChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := otherComponent(t, "hello")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config := w.config("resource \"sless_function\" \"f\" {\n name = \"f\"\n runtime = \"wasm\"\n component = %q\n}\n", path)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: config},
			{
				// The same path, other bytes.
				PreConfig: func() {
					if err := os.WriteFile(path, append(before, 0, 6, 4, 'n', 'o', 't', 'e', 2), 0o644); err != nil {
						t.Fatal(err)
					}
				},
				Config:            config,
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate, plancheck.ExpectUnknownValue(function, tfjsonpath.New("artifact_digest"))),
				ConfigStateChecks: []statecheck.StateCheck{known("version", knownvalue.Int64Exact(2))},
			},
			{
				// Other code by someone else is drift, and comes back.
				PreConfig: func() {
					if _, err := w.Upload(background, "f", "application/wasm", before); err != nil {
						t.Fatal(err)
					}
				},
				Config:            config,
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate),
				ConfigStateChecks: []statecheck.StateCheck{known("version", knownvalue.Int64Exact(4))},
			},
			{
				// Other settings by someone else, too.
				PreConfig: func() {
					memory := int32(7)
					if _, err := w.UpdateFunction(background, "f", api.FunctionSpec{Runtime: api.RuntimeWasm, MemoryMb: &memory}); err != nil {
						t.Fatal(err)
					}
				},
				Config:            config,
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate),
				ConfigStateChecks: []statecheck.StateCheck{known("memory_mb", knownvalue.Int64Exact(128))},
			},
			{
				// One that was deleted is made again.
				PreConfig: func() {
					if err := w.DeleteFunction(background, "f"); err != nil {
						t.Fatal(err)
					}
				},
				Config:            config,
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionCreate),
				ConfigStateChecks: []statecheck.StateCheck{known("version", knownvalue.Int64Exact(1))},
			},
			{
				PreConfig: func() {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				},
				Config: config, ExpectError: regexp.MustCompile(`(?s)code can't be read.*component\s+= .*no such file`),
			},
			{PreConfig: func() {
				if err := os.WriteFile(path, before, 0o644); err != nil {
					t.Fatal(err)
				}
			}, Config: config},
		},
	})
}

// Every rule is told at the plan, at the attribute that breaks it.
func TestAccRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hello := guest(t, "hello")
	f := func(settings string) string {
		return w.config("resource \"sless_function\" \"f\" {\n%s\n}\n", settings)
	}
	good := func(more string) string {
		return f(fmt.Sprintf("  name = \"f\"\n  runtime = \"wasm\"\n  component = %q\n%s", hello, more))
	}
	var steps []resource.TestStep
	for _, c := range []struct{ config, line, why string }{
		{f(fmt.Sprintf("  name = \"A_b\"\n  runtime = \"wasm\"\n  component = %q", hello)), `name = "A_b"`, "is not a valid name"},
		{f(fmt.Sprintf("  name = %q\n  runtime = \"wasm\"\n  component = %q", strings.Repeat("a", 49), hello)), `name = "a`, "at most 48 characters"},
		{f(fmt.Sprintf("  name = \"kubernetes\"\n  runtime = \"wasm\"\n  component = %q", hello)), `name = "kub`, "neither"},
		{f("  name = \"f\"\n  runtime = \"perl5\"\n  source_dir = \".\""), `runtime = "perl5"`, "value must be one of"},
		{f("  name = \"f\"\n  runtime = \"wasm\""), `resource "sless_function" "f"`, "(?i)exactly one of these attributes|no attribute specified"},
		{f("  name = \"f\"\n  runtime = \"wasm\"\n  source_dir = \".\""), `source_dir`, "takes a component"},
		{f(fmt.Sprintf("  name = \"f\"\n  runtime = \"nodejs20\"\n  component = %q", hello)), `component`, "takes source"},
		{good(`  entrypoint = "a.b"`), `entrypoint = "a.b"`, "names its own entry point"},
		{f("  name = \"f\"\n  runtime = \"nodejs20\"\n  source_dir = \".\"\n  entrypoint = \"../a.b\""), `entrypoint = "../a.b"`, "is no entry point"},
		{good(`  memory_mb = 4096`), `memory_mb = 4096`, "between 1 and 2048"},
		{good(`  timeout_seconds = 0`), `timeout_seconds = 0`, "between 1 and 900"},
		{good(`  concurrency = 10001`), `concurrency = 10001`, "between 1 and 10000"},
		{good(`  max_replicas = 101`), `max_replicas = 101`, "between 1 and 100"},
		{good(`  min_replicas = 4`), `min_replicas = 4`, "more than `max_replicas`"},
		{good(`  limits = { cpu_ms = 0 }`), `limits.cpu_ms`, "between 1 and 900000"},
		{good(`  limits = { rate_per_second = 0 }`), `limits.rate_per_second`, "between 1 and 1000000"},
		{good(`  env = { "1A" = "x" }`), `env = { "1A"`, "can't be a variable's name"},
		{good(`  env = { SLESS_X = "x" }`), `env = {`, "does not start with SLESS_"},
		{good("  env = { A = \"x\" }\n  secret_refs = { A = \"x\" }"), `secret_refs = {`, "is in `env` too"},
		{good(`  secret_refs = { A = "Not_A_Name" }`), `secret_refs = {`, "is not a valid name"},
		{good(`  env = { A = "` + strings.Repeat("x", 65<<10) + `" }`), `env = {`, "at most 65536 may be"},
		{good(`  egress = { allow = ["http://x"] }`), `egress.allow[0]`, "is none of host"},
		{good(`  egress = { allow = [] }`), `egress.allow`, "at least 1 elements"},
		{w.config(`resource "sless_trigger" "t" {
  name = "t"
  function = "f"
  http = { auth = "password" }
}`), `http.auth`, "value must be one of"},
		{w.config("resource \"sless_trigger\" \"t\" {\n  name = \"T\"\n  function = \"f\"\n  http = {}\n}"), `name = "T"`, "is not a valid name"},
	} {
		// Terraform breaks lines where it likes to.
		why := strings.ReplaceAll(c.why, " ", `\s+`)
		steps = append(steps, resource.TestStep{Config: c.config, PlanOnly: true,
			ExpectError: regexp.MustCompile(`(?s)` + regexp.QuoteMeta(c.line) + `.*` + why)})
	}
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: factories, Steps: steps})
}

func TestAccOnlyPathsAndTimeoutsAskNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	front := w.through(nil)
	elsewhere := file(t, "same.wasm", mustRead(t, guest(t, "hello")))
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: w.config("%s", component(t, "f", ""))},
			{
				PreConfig: func() { front.forget() },
				Config: w.config("%s", strings.Replace(component(t, "f", `timeouts = { update = "1h", delete = "1h" }`),
					guest(t, "hello"), elsewhere, 1)),
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate, plancheck.ExpectKnownValue(function, tfjsonpath.New("version"), knownvalue.Int64Exact(1))),
				ConfigStateChecks: []statecheck.StateCheck{known("timeouts", knownvalue.ObjectPartial(map[string]knownvalue.Check{"update": knownvalue.StringExact("1h")}))},
				Check: func(*terraform.State) error {
					if changed := changes(front.forget()); len(changed) > 0 {
						return fmt.Errorf("something was asked for: %v", changed)
					}
					return nil
				},
			},
		},
	})
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestAccABusyPlatformIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	statuses := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}
	refused := 0
	front := w.through(func(out http.ResponseWriter, request *http.Request, nth int) bool {
		if nth < len(statuses) {
			refused++
			out.Header().Set("Retry-After", "0")
			out.WriteHeader(statuses[nth])
			return true
		}
		return false
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: w.config("%s", component(t, "f", "")), ConfigStateChecks: []statecheck.StateCheck{known("phase", knownvalue.StringExact("Ready"))}},
		},
	})
	// ensure, create, upload, read, delete: each twice.
	if front.forget(); refused < 10 {
		t.Fatalf("only %d requests were refused", refused)
	}
}

func TestAccWhatIsThereIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.Ensure(background); err != nil {
		t.Fatal(err)
	}
	if _, err := w.CreateFunction(background, "f", api.FunctionSpec{Runtime: api.RuntimeWasm}); err != nil {
		t.Fatal(err)
	}
	config := w.config("%s", component(t, "f", ""))
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: config, ExpectError: regexp.MustCompile(`(?s)There is such a function already.*name = "f".*terraform\s+import`)},
			// Imported it is managed: it had no code, so it gets it.
			{Config: config, ResourceName: function, ImportState: true, ImportStateId: "f", ImportStatePersist: true},
			{Config: config, ConfigPlanChecks: planned(function, plancheck.ResourceActionUpdate), ConfigStateChecks: []statecheck.StateCheck{known("version", knownvalue.Int64Exact(1))}},
		},
	})
}
