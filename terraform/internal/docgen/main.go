// Docgen writes docs/ by tfplugindocs. It makes the schema by itself, with the installed terraform and the provider as it
// is here, so that nothing is downloaded.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/provider"
)

const config = `terraform {
  required_providers {
    sless = { source = %q }
  }
}
`

func main() {
	folder, err := os.MkdirTemp("", "sless-docgen-")
	if err == nil {
		defer os.RemoveAll(folder)
		err = generate(folder)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func generate(folder string) error {
	binary := filepath.Join(folder, "terraform-provider-sless")
	if err := run(nil, "go", "build", "-o", binary, "."); err != nil {
		return err
	}
	override := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n  }\n  direct {}\n}\n", provider.Address, folder)
	settings := filepath.Join(folder, "terraform.rc")
	for path, text := range map[string]string{settings: override, filepath.Join(folder, "main.tf"): fmt.Sprintf(config, provider.Address)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	show := exec.Command("terraform", "-chdir="+folder, "providers", "schema", "-json")
	show.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "CHECKPOINT_DISABLE=1")
	show.Stderr = os.Stderr
	out, err := show.Output()
	if err != nil {
		return fmt.Errorf("terraform providers schema: %w", err)
	}
	// tfplugindocs looks for the provider's short name.
	var schemas struct {
		Version string                     `json:"format_version"`
		Schemas map[string]json.RawMessage `json:"provider_schemas"`
	}
	if err := json.Unmarshal(out, &schemas); err != nil {
		return err
	}
	schemas.Schemas = map[string]json.RawMessage{"sless": schemas.Schemas[provider.Address]}
	text, err := json.Marshal(schemas)
	if err != nil {
		return err
	}
	schema := filepath.Join(folder, "schema.json")
	if err := os.WriteFile(schema, text, 0o600); err != nil {
		return err
	}
	return run(os.Stdout, "go", "tool", "-modfile=tools/go.mod", "tfplugindocs", "generate", "--provider-name=sless", "--providers-schema="+schema)
}

func run(out *os.File, program string, words ...string) error {
	command := exec.Command(program, words...)
	command.Stdout, command.Stderr = out, os.Stderr
	return command.Run()
}
