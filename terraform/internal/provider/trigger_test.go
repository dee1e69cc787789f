package provider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/identity"
)

const trigger = "sless_trigger.t"

func two(t *testing.T, triggered string) string {
	return fmt.Sprintf(`
resource "sless_function" "one" {
  name      = "one"
  runtime   = "wasm"
  component = %[1]q
}
resource "sless_function" "two" {
  name      = "two"
  runtime   = "wasm"
  component = %[1]q
}
resource "sless_trigger" "t" {
  name     = "t"
  function = sless_function.%[2]s.name
  http     = {}
}
`, guest(t, "hello"), triggered)
}

func TestAccTriggerLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := func(function string) resource.TestCheckFunc {
		return func(state *terraform.State) error {
			url := state.RootModule().Resources[trigger].Primary.Attributes["url"]
			if status, text := get(t, url+"/a%2Fb"); status != 200 || !strings.HasSuffix(url, "/"+function) {
				return fmt.Errorf("%s: %d %s", url, status, text)
			}
			return nil
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy: resource.ComposeTestCheckFunc(w.gone("one", "two"), func(*terraform.State) error {
			if _, err := w.Trigger(background, "t"); !client.IsNotFound(err) {
				return fmt.Errorf("the trigger is still there: %v", err)
			}
			return nil
		}),
		Steps: []resource.TestStep{
			{Config: w.config("%s", two(t, "one")), Check: answers("one")},
			{Config: w.config("%s", two(t, "one")), PlanOnly: true},
			{ResourceName: trigger, ImportState: true, ImportStateId: "t", ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name"},
			{
				Config:           w.config("%s", two(t, "two")),
				ConfigPlanChecks: planned(trigger, plancheck.ResourceActionUpdate, plancheck.ExpectUnknownValue(trigger, tfjsonpath.New("url"))),
				Check:            answers("two"),
			},
			{
				PreConfig: func() {
					if err := w.DeleteTrigger(background, "t"); err != nil {
						t.Fatal(err)
					}
				},
				Config:           w.config("%s", two(t, "two")),
				ConfigPlanChecks: planned(trigger, plancheck.ResourceActionCreate),
				Check:            answers("two"),
			},
		},
	})
}

func TestAccDataSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.config("%s", kitchen(t, ""))
	data := base + `
data "sless_namespace" "mine" {}
data "sless_function" "f" { name = sless_function.f.name }
data "sless_invocations" "all" { function = sless_function.f.name }
data "sless_invocations" "trapped" {
  function = sless_function.f.name
  outcome  = "function_trapped"
  limit    = 1
}
output "namespace" { value = provider::sless::namespace_of(data.sless_namespace.mine.subject) }
`
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: base, Check: func(state *terraform.State) error {
				url := state.RootModule().Resources["sless_trigger.f"].Primary.Attributes["url"]
				if status, _ := get(t, url+"/hello"); status != 200 {
					return fmt.Errorf("/hello: %d", status)
				}
				if status, _ := get(t, url+"/trap"); status != 500 {
					return fmt.Errorf("/trap: %d", status)
				}
				return nil
			}},
			{
				PreConfig: func() {
					// Rows come shortly after their calls.
					eventually(t, "two rows", func() bool {
						rows, err := w.Invocations(background, "f", 10, noFilter)
						return err == nil && len(rows) == 2
					})
				},
				Config: data,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue("data.sless_namespace.mine", tfjsonpath.New("name"), knownvalue.StringExact(w.namespace)),
					statecheck.ExpectKnownValue("data.sless_namespace.mine", tfjsonpath.New("tenant"), knownvalue.StringExact(identity.Tenant(w.subject))),
					statecheck.ExpectKnownOutputValue("namespace", knownvalue.StringExact(w.namespace)),
					statecheck.CompareValuePairs("data.sless_function.f", tfjsonpath.New("artifact_digest"), function, tfjsonpath.New("artifact_digest"), compare.ValuesSame()),
					statecheck.ExpectKnownValue("data.sless_function.f", tfjsonpath.New("phase"), knownvalue.StringExact("Ready")),
					statecheck.ExpectKnownValue("data.sless_invocations.all", tfjsonpath.New("invocations"), knownvalue.ListSizeExact(2)),
					statecheck.ExpectKnownValue("data.sless_invocations.trapped", tfjsonpath.New("invocations").AtSliceIndex(0).AtMapKey("outcome"), knownvalue.StringExact("function_trapped")),
				},
			},
			{Config: data + `data "sless_function" "no" { name = "no" }`, ExpectError: regexp.MustCompile(`(?s)There is no such function.*name = "no"`)},
			{Config: data + `output "bad" { value = provider::sless::namespace_of("") }`, ExpectError: regexp.MustCompile(`(?s)A subject is not\s+empty`)},
			{Config: data},
		},
	})
}

// What is wrong with the provider's block is told at its attribute.
func TestAccConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var iot atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		switch {
		case request.URL.Path == "/v1/namespaces/"+identity.IoTNamespace(w.subject)+"/ensure" && request.Method == http.MethodPost:
			iot.Add(1)
			fmt.Fprintf(out, `{"name":%q,"uid":"0199e325-1cdf-7cda-9319-e5302a85e291","createdAt":"2026-01-01T00:00:00Z"}`, identity.IoTNamespace(w.subject))
		case request.URL.Path == "/cloud" && request.Header.Get("Authorization") == "Bearer "+w.token:
		default:
			out.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(other.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	block := func(settings string) string {
		return "provider \"sless\" {\n" + settings + "\n}\ndata \"sless_namespace\" \"n\" {}\n"
	}
	both := fmt.Sprintf("  endpoint = %q\n  token = %q\n", w.endpoint, w.token)
	steps := []resource.TestStep{
		{Config: block(both), ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownValue("data.sless_namespace.n", tfjsonpath.New("name"), knownvalue.StringExact(w.namespace)),
		}},
		{Config: block(both + fmt.Sprintf("  iot_endpoint = %q\n  nubes_endpoint = \"%s/cloud\"", other.URL, other.URL)), Check: func(*terraform.State) error {
			if iot.Load() == 0 {
				return fmt.Errorf("the device side's namespace was not made")
			}
			return nil
		}},
	}
	for _, c := range []struct{ settings, line, why string }{
		{"", `provider "sless"`, "There is no endpoint"},
		{fmt.Sprintf("  endpoint = %q", w.endpoint), `provider "sless"`, "SLESS_TOKEN"},
		{"  endpoint = \"127.0.0.1:9090\"\n  token = \"t\"", `endpoint = "127`, "http"},
		{fmt.Sprintf("  endpoint = %q\n  token = \"a.b\"", w.endpoint), `token = (sensitive`, "three"},
		{fmt.Sprintf("  endpoint = %q\n  token = \"e30.eyJzdWIiOiJhIn0.c2ln\"", w.endpoint), `token = (sensitive`, "does not take the token"},
		{fmt.Sprintf("  endpoint = %q\n  token = \"e30.eyJzdWIiOiJhIiwiZXhwIjoxfQ.c2ln\"", w.endpoint), `token = (sensitive`, "expired at 1970"},
		{fmt.Sprintf("  endpoint = %q\n  token = %q", gone.URL, w.token), `endpoint = `, "can't be used"},
		{both + fmt.Sprintf("  nubes_endpoint = \"%s/elsewhere\"", other.URL), `token = `, "The cloud does not take the token"},
		{both + fmt.Sprintf("  nubes_endpoint = %q", gone.URL), `nubes_endpoint = `, "The cloud can't be reached"},
		{both + fmt.Sprintf("  iot_endpoint = %q", gone.URL), `iot_endpoint = `, "can't be used"},
	} {
		why := strings.ReplaceAll(regexp.QuoteMeta(c.why), " ", `\s+`)
		line := strings.TrimSuffix(c.line, "(sensitive")
		steps = append(steps, resource.TestStep{Config: block(c.settings), ExpectError: regexp.MustCompile(
			`(?s)(` + why + `.*` + regexp.QuoteMeta(line) + `|` + regexp.QuoteMeta(line) + `.*` + why + `)`)})
	}
	// What is destroyed at the end is destroyed with the last one.
	steps = append(steps, steps[0])
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: factories, Steps: steps})
}
