package provider_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// section is the part of the project's README below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text := string(mustRead(t, "../../../README.md"))
	_, after, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the README has no `## %s`", heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// blocks are the fenced blocks of a language.
func blocks(text, language string) []string {
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// script makes a shell's script of a console block, and gives the lines that it is said to print.
func script(block string) (commands string, printed []string) {
	commands = "set -euo pipefail\n"
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands += command
		} else {
			printed = append(printed, strings.TrimSpace(line))
		}
	}
	return commands, printed
}

// The README's walk-through, as it stands there: the provider is released, installed by `terraform init`, and used.
func TestAccTheWalkThroughOfTheReadme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	part := section(t, "Terraform")
	consoles, configs := blocks(part, "console"), blocks(part, "hcl")
	if len(consoles) != 2 || len(configs) != 1 {
		t.Fatalf("the walk-through has %d consoles and %d configurations", len(consoles), len(configs))
	}
	// A home of its own, with the guests where they are said to be and Go's caches where they are.
	home, work := t.TempDir(), t.TempDir()
	guests := filepath.Join(home, ".cache/sless/guests")
	if err := os.MkdirAll(filepath.Dir(guests), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(guest(t, "hello")), guests); err != nil {
		t.Fatal(err)
	}
	environment := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1"}
	for _, variable := range []string{"GOMODCACHE", "GOCACHE", "GOFLAGS", "GOPROXY"} {
		value, err := exec.Command("go", "env", variable).Output()
		if err != nil {
			t.Fatal(err)
		}
		environment = append(environment, variable+"="+strings.TrimSpace(string(value)))
	}
	if err := os.WriteFile(filepath.Join(work, "main.tf"), []byte(configs[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	for index, folder := range []string{"../../..", work} {
		commands, printed := script(consoles[index])
		commands = strings.NewReplacer("http://127.0.0.1:9090", w.endpoint, "SLESS_TOKEN=…", "SLESS_TOKEN="+w.token).Replace(commands)
		shell := exec.Command("bash", "-c", commands)
		shell.Dir, shell.Env = folder, environment
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s\n%s", err, commands, out)
		}
		for _, line := range printed {
			if !strings.Contains(string(out), line) {
				t.Fatalf("the README says that this is printed: %s\nbut it is:\n%s", line, out)
			}
		}
	}
	if err := w.gone("hello-terraform")(nil); err != nil {
		t.Fatal(err)
	}
}

// All examples are what the provider's schema takes.
func TestAccExamplesAreValid(t *testing.T) {
	t.Parallel()
	newWorld(t)
	function := string(mustRead(t, "../../examples/resources/sless_function/resource.tf"))
	for _, name := range []string{"provider/provider.tf", "resources/sless_trigger/resource.tf", "data-sources/sless_namespace/data-source.tf",
		"data-sources/sless_function/data-source.tf", "data-sources/sless_invocations/data-source.tf", "functions/namespace_of/function.tf"} {
		config := string(mustRead(t, "../../examples/"+name))
		if strings.Contains(config, "sless_function.hello.") && !strings.Contains(config, "data.sless_function.hello.") {
			config += function
		}
		c := newCLI(t, "")
		if !strings.Contains(config, "required_providers") {
			config = "terraform {\n  required_providers {\n    sless = { source = \"terra.k8c.ru/naeel/sless\" }\n  }\n}\n" + config
		}
		c.write("main.tf", config)
		if out, code := c.run("validate", "-no-color"); code != 0 {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// The whole one is applied.
func TestAccTheWholeExample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCLI(t, "", "SLESS_ENDPOINT="+w.endpoint, "SLESS_TOKEN="+w.token, "TF_VAR_hello="+guest(t, "hello"), "TF_VAR_expenses="+guest(t, "expenses"))
	c.write("main.tf", string(mustRead(t, "../../examples/complete/main.tf")))
	c.ok("apply", "-auto-approve")
	if _, code := c.run("plan", "-detailed-exitcode"); code != 0 {
		t.Fatalf("the plan after an apply is not empty: %d", code)
	}
	url := strings.TrimSpace(c.ok("output", "-raw", "hello_url"))
	if _, after, found := strings.Cut(url, "http"); found {
		url = "http" + after
	}
	if status, text := get(t, url+"/"); status != 200 || !strings.Contains(text, "hello") {
		t.Fatal(fmt.Sprint(status), text)
	}
	c.ok("destroy", "-auto-approve")
	if err := w.gone("hello", "expenses")(nil); err != nil {
		t.Fatal(err)
	}
}
