package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
)

func (r *functionResource) ConfigValidators(context.Context) []resource.ConfigValidator {
	return []resource.ConfigValidator{
		resourcevalidator.ExactlyOneOf(path.MatchRoot("component"), path.MatchRoot("source_zip"), path.MatchRoot("source_dir")),
	}
}

// ValidateConfig checks the rules that are about several attributes.
func (r *functionResource) ValidateConfig(ctx context.Context, request resource.ValidateConfigRequest, response *resource.ValidateConfigResponse) {
	var config functionModel
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	refuse := func(at path.Path, detail string) {
		response.Diagnostics.AddAttributeError(at, "The value does not go with another one", detail)
	}
	if runtime := config.Runtime.ValueString(); runtime != "" {
		component := runtime == string(api.RuntimeWasm)
		for name, value := range map[string]types.String{"source_zip": config.SourceZip, "source_dir": config.SourceDir} {
			if component && !value.IsNull() {
				refuse(path.Root(name), "The runtime `wasm` takes a component that was made elsewhere: set `component`, or choose a runtime that takes source.")
			}
		}
		if !component && !config.Component.IsNull() {
			refuse(path.Root("component"), fmt.Sprintf("The runtime `%s` takes source: set `source_dir` or `source_zip`, or the runtime to `wasm`.", runtime))
		}
		if component && !config.Entrypoint.IsNull() {
			refuse(path.Root("entrypoint"), "A component names its own entry point; leave it out, or choose a runtime that takes source.")
		}
	}
	low, high := config.MinReplicas.ValueInt64(), int64(defaultMaxReplicas)
	if !config.MaxReplicas.IsNull() {
		high = config.MaxReplicas.ValueInt64()
	}
	if !config.MinReplicas.IsUnknown() && !config.MaxReplicas.IsUnknown() && low > high {
		refuse(path.Root("min_replicas"), fmt.Sprintf("It is %d, more than `max_replicas`, which is %d.", low, high))
	}
	config.checkEnvironment(refuse)
}

func (m *functionModel) checkEnvironment(refuse func(path.Path, string)) {
	seen := map[string]string{}
	for _, from := range []struct {
		attribute string
		variables types.Map
	}{{"env", m.Env}, {"secrets", m.Secrets}, {"secret_refs", m.SecretRefs}} {
		for variable := range from.variables.Elements() {
			if other, twice := seen[variable]; twice {
				refuse(path.Root(from.attribute).AtMapKey(variable), fmt.Sprintf("The variable is in `%s` too; keep one of them.", other))
			}
			seen[variable] = from.attribute
		}
	}
	if len(seen) > maxEnvVars {
		refuse(path.Root("env"), fmt.Sprintf("There are %d variables with those of `secrets` and `secret_refs`; at most %d may be.", len(seen), maxEnvVars))
	}
	bytes := 0
	for variable, value := range m.Env.Elements() {
		if text, ok := value.(types.String); ok {
			bytes += len(variable) + len(text.ValueString())
		}
	}
	if bytes > maxEnvBytes {
		refuse(path.Root("env"), fmt.Sprintf("Names and values have %d bytes; at most %d may be.", bytes, maxEnvBytes))
	}
}
