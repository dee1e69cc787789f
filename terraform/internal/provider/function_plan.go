package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
)

// ModifyPlan says what will be: the hash of the code as it is on disk, whether secrets change, and which of the platform's
// values stay. Only what will change is unknown.
func (r *functionResource) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if request.Plan.Raw.IsNull() {
		return
	}
	var plan, config functionModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	state := stateOf(ctx, request, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	if state != nil && !plan.Name.Equal(state.Name) {
		// Another name is another function: nothing of this one stays.
		state = nil
	}
	plan.SourceHash = plannedHash(&plan, &response.Diagnostics)
	plan.ManagedSecrets = plannedSecrets(ctx, plan.Name, config.Secrets, &response.Diagnostics)
	plan.SecretsRevision = r.plannedRevision(ctx, request.Private, state, config.Secrets, &response.Diagnostics)
	plan.Phase = types.StringValue(string(api.PhaseReady))
	plan.promise(state)
	response.Diagnostics.Append(response.Plan.Set(ctx, &plan)...)
}

// stateOf is what is there; nil before a function is created.
func stateOf(ctx context.Context, request resource.ModifyPlanRequest, diags *diag.Diagnostics) *functionModel {
	if request.State.Raw.IsNull() {
		return nil
	}
	var state functionModel
	diags.Append(request.State.Get(ctx, &state)...)
	return &state
}

func plannedHash(plan *functionModel, diags *diag.Diagnostics) types.String {
	code, err := plan.code()
	if err != nil {
		diags.AddAttributeError(path.Root(plan.codeAttribute()), "The code can't be read", err.Error())
		return types.StringUnknown()
	}
	if code == nil {
		return types.StringUnknown()
	}
	return types.StringValue(code.Hash)
}

// plannedRevision is the same as long as the values are; after an import, or where one of them was removed, they are
// written again.
func (r *functionResource) plannedRevision(
	ctx context.Context, private privateReader, state *functionModel, secrets types.Map, diags *diag.Diagnostics,
) types.Int64 {
	values, all := knownSecrets(ctx, secrets, diags)
	if !all {
		return types.Int64Unknown()
	}
	if len(values) == 0 {
		return types.Int64Null()
	}
	if state == nil || state.SecretsRevision.IsNull() {
		return types.Int64Value(1)
	}
	if matchesSeal(ctx, private, values, diags) {
		return state.SecretsRevision
	}
	return types.Int64Value(state.SecretsRevision.ValueInt64() + 1)
}

// promise sets what the platform decides: as it is, where nothing changes, else unknown.
func (m *functionModel) promise(state *functionModel) {
	if state == nil {
		m.URL, m.Version = types.StringUnknown(), types.Int64Unknown()
		m.ArtifactDigest, m.ImageDigest = types.StringUnknown(), types.StringUnknown()
		return
	}
	m.URL, m.Version, m.ArtifactDigest, m.ImageDigest = state.URL, state.Version, state.ArtifactDigest, state.ImageDigest
	ready := state.Phase.Equal(m.Phase)
	if ready && m.sameSettings(state) && m.SourceHash.Equal(state.SourceHash) {
		return
	}
	m.Version = types.Int64Unknown()
	if m.URL.IsNull() {
		// A trigger may have come meanwhile.
		m.URL = types.StringUnknown()
	}
	// A version of the same code serves what was built before.
	if !ready || !m.sameCode(state) {
		m.ArtifactDigest, m.ImageDigest = types.StringUnknown(), types.StringUnknown()
	}
}
