package provider_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"
)

// kitchen is a function that tells its environment, and its trigger.
func kitchen(t *testing.T, settings string) string {
	return fmt.Sprintf(`
resource "sless_function" "f" {
  name      = "f"
  runtime   = "wasm"
  component = %q
%s
}
resource "sless_trigger" "f" {
  name     = "f"
  function = sless_function.f.name
  http     = {}
}
`, guest(t, "kitchen"), settings)
}

func TestAccSecretsAreWrittenAndKeptNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	environment := func(want, not string) resource.TestCheckFunc {
		return func(state *terraform.State) error {
			url := state.RootModule().Resources["sless_trigger.f"].Primary.Attributes["url"]
			status, text := get(t, url+"/env")
			if status != 200 || !strings.Contains(text, want) || not != "" && strings.Contains(text, not) {
				return fmt.Errorf("%d: %s", status, text)
			}
			if strings.Contains(state.RootModule().Resources[function].String(), "hunter") {
				return fmt.Errorf("a secret is in the state: %s", state)
			}
			return nil
		}
	}
	revision := func(n int64) plancheck.PlanCheck {
		return plancheck.ExpectKnownValue(function, tfjsonpath.New("secrets_revision"), knownvalue.Int64Exact(n))
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_11_0)},
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{
				Config:            w.config("%s", kitchen(t, `  secrets = { PASSWORD = "hunter2" }`)),
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionCreate, revision(1)),
				ConfigStateChecks: []statecheck.StateCheck{known("secrets", knownvalue.Null()), known("managed_secrets", knownvalue.MapSizeExact(1)), known("version", knownvalue.Int64Exact(1))},
				Check:             environment("PASSWORD=hunter2\n", ""),
			},
			{Config: w.config("%s", kitchen(t, `  secrets = { PASSWORD = "hunter2" }`)), PlanOnly: true},
			{
				// Another value is seen, though the old one is nowhere, and makes no version.
				Config: w.config("%s", kitchen(t, `  secrets = { PASSWORD = "hunter3" }`)),
				ConfigPlanChecks: planned(function, plancheck.ResourceActionUpdate, revision(2),
					plancheck.ExpectKnownValue(function, tfjsonpath.New("version"), knownvalue.Int64Exact(1))),
				Check: environment("PASSWORD=hunter3\n", "hunter2"),
			},
			{
				// Removed by someone else, it is written again.
				PreConfig: func() {
					names, err := w.Secrets(background)
					if err != nil || len(names) != 1 {
						t.Fatal(names, err)
					}
					for name := range names {
						if err := w.DeleteSecret(background, name); err != nil {
							t.Fatal(err)
						}
					}
				},
				Config:           w.config("%s", kitchen(t, `  secrets = { PASSWORD = "hunter3" }`)),
				ConfigPlanChecks: planned(function, plancheck.ResourceActionUpdate),
				Check:            environment("PASSWORD=hunter3\n", ""),
			},
			{
				// Another variable: the old one's secret goes with it.
				Config:            w.config("%s", kitchen(t, `  secrets = { TOKEN = "hunter4" }`)),
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate),
				ConfigStateChecks: []statecheck.StateCheck{known("version", knownvalue.Int64Exact(2))},
				Check: resource.ComposeTestCheckFunc(environment("TOKEN=hunter4\n", "PASSWORD"), func(*terraform.State) error {
					if names, err := w.Secrets(background); err != nil || len(names) != 1 {
						return fmt.Errorf("%v, %v", names, err)
					}
					return nil
				}),
			},
			{ResourceName: function, ImportState: true, ImportStateId: "f", ImportStateVerify: true,
				ImportStateVerifyIdentifierAttribute: "name", ImportStateVerifyIgnore: []string{"component", "secrets_revision"}},
			{
				// Values that are known at the apply only.
				Config: w.config("resource \"terraform_data\" \"later\" { input = \"hunter5\" }\n%s",
					kitchen(t, `  secrets = { TOKEN = terraform_data.later.output }`)),
				ConfigPlanChecks: planned(function, plancheck.ResourceActionUpdate, plancheck.ExpectUnknownValue(function, tfjsonpath.New("secrets_revision"))),
				Check:            environment("TOKEN=hunter5\n", "hunter4"),
			},
			{Config: w.config("%s", kitchen(t, "")), ConfigStateChecks: []statecheck.StateCheck{known("secrets_revision", knownvalue.Null()), known("managed_secrets", knownvalue.Null())},
				Check: func(*terraform.State) error { return w.gone()(nil) }},
		},
	})
}

// The whole state and the whole plan, as they are on disk.
func TestAccSecretsAreInNoFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCLI(t, w.config("%s", kitchen(t, `  secrets = { PASSWORD = var.password }`))+"variable \"password\" {\n  type = string\n  ephemeral = true\n}\n", "TF_VAR_password=correct-horse")
	c.ok("plan", "-out=plan")
	shown := c.ok("show", "-json", "plan")
	c.ok("apply", "-auto-approve")
	for what, text := range map[string]string{"plan": shown, "state": c.state()} {
		if !strings.Contains(text, "managed_secrets") || strings.Contains(text, "correct-horse") {
			t.Fatalf("the %s: %s", what, text)
		}
	}
	c.ok("destroy", "-auto-approve")
}

func TestAccAVersionThatCannotServeIsTainted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: w.config("%s", kitchen(t, `  secret_refs = { KEY = "not-there" }`)), ExpectError: regexp.MustCompile(`(?s)The build of function f failed.*component.*not-there`)},
			// Kept, and made anew.
			{
				Config:           w.config("%s", kitchen(t, "")),
				ConfigPlanChecks: planned(function, plancheck.ResourceActionReplace),
				Check: func(state *terraform.State) error {
					if status, text := get(t, state.RootModule().Resources["sless_trigger.f"].Primary.Attributes["url"]+"/hello"); status != 200 || text != "hello\n" {
						return fmt.Errorf("%d: %s", status, text)
					}
					return nil
				},
			},
			// A change that fails is planned again, until it serves; the old version goes on.
			{Config: w.config("%s", kitchen(t, `  secret_refs = { KEY = "not-there" }`)), ExpectError: regexp.MustCompile(`The build of function f failed`)},
			{
				PreConfig: func() {
					if err := w.PutSecret(background, "not-there", "now it is"); err != nil {
						t.Fatal(err)
					}
				},
				Config:            w.config("%s", kitchen(t, `  secret_refs = { KEY = "not-there" }`)),
				ConfigStateChecks: []statecheck.StateCheck{known("phase", knownvalue.StringExact("Ready"))},
				Check:             func(*terraform.State) error { return w.DeleteSecret(background, "not-there") },
			},
		},
	})
}

func TestAccCodeThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	module := file(t, "module.wasm", []byte("\x00asm\x01\x00\x00\x00"))
	config := w.config("resource \"sless_function\" \"f\" {\n  name = \"f\"\n  runtime = \"wasm\"\n  component = %q\n}\n", module)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: config, ExpectError: regexp.MustCompile(`(?s)The platform refused the code.*component = .*core WebAssembly module`)},
			{Config: w.config("%s", component(t, "f", "")), ConfigPlanChecks: planned(function, plancheck.ResourceActionReplace)},
		},
	})
}
