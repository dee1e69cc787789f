package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

// Between Terraform's values, which may be null or unknown, and the API's.

var objectOptions = basetypes.ObjectAsOptions{}

// narrow is for numbers whose range was validated.
func narrow(value types.Int64) *int32 {
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	number := int32(value.ValueInt64())
	return &number
}

func widen(value *int32) types.Int64 {
	if value == nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*value))
}

// known are a map's known elements.
func known(ctx context.Context, value types.Map, diags *diag.Diagnostics) map[string]string {
	elements := map[string]string{}
	if !value.IsNull() && !value.IsUnknown() {
		diags.Append(value.ElementsAs(ctx, &elements, false)...)
	}
	return elements
}

// mapOrAbsent is a map; an empty one is as the configuration has it, absent or empty.
func mapOrAbsent(ctx context.Context, elements map[string]string, before types.Map, diags *diag.Diagnostics) types.Map {
	if len(elements) == 0 && (before.IsNull() || before.IsUnknown()) {
		return types.MapNull(types.StringType)
	}
	value, more := types.MapValueFrom(ctx, types.StringType, elements)
	diags.Append(more...)
	return value
}
