package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
)

// A folder of source becomes a container; its hash, which the plan promises, is the platform's.
func TestAccSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// As the platform's own description has it: `nodejs20` needs uploads of source.
	if _, description := get(t, w.endpoint+"/v1/openapi.json"); !strings.Contains(description, `"application/zip"`) {
		t.Skip("this release of the platform takes no source archives")
	}
	folder := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("handler.js", "const words = require('./lib/words')\nexports.handler = async () => words.hello\n")
	put("lib/words.js", "exports.hello = 'good day'\n")
	put("node_modules/x/index.js", "not sent")
	config := func(more string) string {
		return w.config(`
resource "sless_function" "f" {
  name    = "f"
  runtime = "nodejs20"
%s
}
resource "sless_trigger" "f" {
  name     = "f"
  function = sless_function.f.name
  http     = {}
}
`, more)
	}
	dir := fmt.Sprintf("  source_dir = %q", folder)
	says := func(want string) resource.TestCheckFunc {
		return func(state *terraform.State) error {
			if status, text := get(t, state.RootModule().Resources["sless_trigger.f"].Primary.Attributes["url"]); status != 200 || text != want {
				return fmt.Errorf("%d: %s", status, text)
			}
			return nil
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             w.gone("f"),
		Steps: []resource.TestStep{
			{Config: config(dir), Check: says("good day"), ConfigStateChecks: []statecheck.StateCheck{
				known("image_digest", knownvalue.NotNull()), known("artifact_digest", knownvalue.Null()),
			}},
			{Config: config(dir), PlanOnly: true},
			{
				PreConfig:         func() { put("lib/words.js", "exports.hello = 'good night'\n") },
				Config:            config(dir),
				ConfigPlanChecks:  planned(function, plancheck.ResourceActionUpdate, plancheck.ExpectUnknownValue(function, tfjsonpath.New("image_digest"))),
				Check:             says("good night"),
				ConfigStateChecks: []statecheck.StateCheck{known("version", knownvalue.Int64Exact(2))},
			},
			{
				PreConfig:   func() { put("handler.js", "exports.handler = (\n") },
				Config:      config(dir),
				ExpectError: regexp.MustCompile(`(?s)The build of function f failed.*source_dir = .*handler\.js`),
			},
			{
				PreConfig: func() {
					put("handler.js", "const words = require('./lib/words')\nexports.handler = async () => words.hello + '!'\n")
				},
				Config: config(dir), Check: says("good night!"),
			},
		},
	})
}
