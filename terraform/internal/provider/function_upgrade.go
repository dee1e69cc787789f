package provider

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// UpgradeState takes the state of a provider from before this schema. What it knows for sure is the function's name and
// where its code is; all else comes from the platform with the next refresh, which Terraform does before it plans.
func (r *functionResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: {StateUpgrader: func(ctx context.Context, request resource.UpgradeStateRequest, response *resource.UpgradeStateResponse) {
		var old map[string]any
		if err := json.Unmarshal(request.RawState.JSON, &old); err != nil {
			response.Diagnostics.AddError("The older state can't be read", err.Error())
			return
		}
		name, _ := old["name"].(string)
		if why := notName(name); why != "" {
			response.Diagnostics.AddAttributeError(path.Root("name"), "The older state names no function",
				why+" Remove it from the state with `terraform state rm` and import the function by its name.")
			return
		}
		response.State.Raw = tftypes.NewValue(response.State.Schema.Type().TerraformType(ctx), nil)
		for _, attribute := range []string{"name", "runtime", "component", "source_zip", "source_dir"} {
			if text, ok := old[attribute].(string); ok && text != "" {
				response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root(attribute), text)...)
			}
		}
	}}}
}
