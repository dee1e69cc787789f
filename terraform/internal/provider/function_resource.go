package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
)

const (
	// A first build of Python source takes minutes.
	deployTimeout = 10 * time.Minute
	deleteTimeout = 5 * time.Minute
)

type functionResource struct{ provider *configured }

var (
	_ resource.ResourceWithConfigure        = (*functionResource)(nil)
	_ resource.ResourceWithConfigValidators = (*functionResource)(nil)
	_ resource.ResourceWithValidateConfig   = (*functionResource)(nil)
	_ resource.ResourceWithModifyPlan       = (*functionResource)(nil)
	_ resource.ResourceWithImportState      = (*functionResource)(nil)
	_ resource.ResourceWithUpgradeState     = (*functionResource)(nil)
)

func newFunctionResource() resource.Resource { return &functionResource{} }

func (r *functionResource) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_function"
}

func (r *functionResource) Configure(_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse) {
	r.provider = from(request.ProviderData, &response.Diagnostics)
}

// Create makes the function and waits until it serves. From the moment that the platform has it, it is in the state,
// whatever happens then.
func (r *functionResource) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan, config functionModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	timeout, more := plan.Timeouts.Create(ctx, deployTimeout)
	response.Diagnostics.Append(more...)
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	plan.ManagedSecrets = plannedSecrets(ctx, plan.Name, config.Secrets, &response.Diagnostics)
	d := deployment{client: sless, plan: &plan, diags: &response.Diagnostics, timeout: timeout, what: "create"}
	if !d.read() {
		return
	}
	function, err := sless.CreateFunction(ctx, plan.Name.ValueString(), plan.spec(ctx, &response.Diagnostics))
	if client.IsConflict(err) {
		response.Diagnostics.AddAttributeError(path.Root("name"), "There is such a function already",
			fmt.Sprintf("A function `%[1]s` is there and is not managed here. Choose another name, or manage it: `terraform import ADDRESS %[1]s`.", plan.Name.ValueString()))
		return
	}
	if err != nil {
		d.failed(ctx, err)
		return
	}
	save := func() {
		// A state has no unknown values.
		saved := plan
		saved.SecretsRevision = orNull(plan.SecretsRevision)
		saved.readStatus(function)
		response.Diagnostics.Append(response.State.Set(ctx, &saved)...)
	}
	save()
	if d.secrets(ctx, config.Secrets, response.Private, 1) {
		function, _ = d.deploy(ctx, function, true)
	}
	save()
}

func orNull(value types.Int64) types.Int64 {
	if value.IsUnknown() {
		return types.Int64Null()
	}
	return value
}

func (r *functionResource) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state functionModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	if r.provider != nil && r.provider.unknown != "" {
		response.Diagnostics.AddWarning("The function was not read",
			fmt.Sprintf("The provider's `%s` is not known yet, so the state of `%s` is taken as it was.", r.provider.unknown, state.Name.ValueString()))
		return
	}
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok {
		return
	}
	function, err := sless.Function(ctx, state.Name.ValueString())
	if client.IsNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		response.Diagnostics.AddError("The function can't be read", err.Error())
		return
	}
	state.read(ctx, function, &response.Diagnostics)
	if !state.ManagedSecrets.IsNull() && !secretsThere(ctx, sless, state.ManagedSecrets, &response.Diagnostics) {
		// A plan then writes them again.
		state.SecretsRevision = types.Int64Null()
	}
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func secretsThere(ctx context.Context, sless *client.Client, managed types.Map, diags *diag.Diagnostics) bool {
	there, err := sless.Secrets(ctx)
	if err != nil {
		diags.AddError("The secrets can't be listed", err.Error())
		return true
	}
	for _, name := range known(ctx, managed, diags) {
		if !there[name] {
			return false
		}
	}
	return true
}

// Update changes what differs, and nothing where only a timeout or a path does.
func (r *functionResource) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan, state, config functionModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	timeout, more := plan.Timeouts.Update(ctx, deployTimeout)
	response.Diagnostics.Append(more...)
	if response.Diagnostics.HasError() {
		return
	}
	plan.ManagedSecrets = plannedSecrets(ctx, plan.Name, config.Secrets, &response.Diagnostics)
	settings := !plan.sameSettings(&state)
	code := !plan.SourceHash.Equal(state.SourceHash)
	secrets := !plan.SecretsRevision.Equal(state.SecretsRevision)
	waits := !state.Phase.Equal(plan.Phase)
	if !settings && !code && !secrets && !waits {
		response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
		return
	}
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := deployment{client: sless, plan: &plan, diags: &response.Diagnostics, timeout: timeout, what: "update"}
	if code && !d.read() {
		return
	}
	if secrets && !d.secrets(ctx, config.Secrets, response.Private, state.SecretsRevision.ValueInt64()+1) {
		return
	}
	function, err := sless.Function(ctx, plan.Name.ValueString())
	if err == nil && settings {
		function, err = sless.UpdateFunction(ctx, plan.Name.ValueString(), plan.spec(ctx, &response.Diagnostics))
	}
	if err != nil {
		d.failed(ctx, err)
		return
	}
	d.dropSecrets(ctx, state.ManagedSecrets)
	if function, done := d.deploy(ctx, function, code); done {
		url := plan.URL
		plan.readStatus(function)
		if !url.IsUnknown() {
			// A plan's promise is kept: a trigger that went meanwhile shows with the next refresh.
			plan.URL = url
		}
		response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
	}
}

func (r *functionResource) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state functionModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	timeout, more := state.Timeouts.Delete(ctx, deleteTimeout)
	response.Diagnostics.Append(more...)
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := deployment{client: sless, plan: &state, diags: &response.Diagnostics, timeout: timeout, what: "delete"}
	if err := sless.DeleteFunction(ctx, state.Name.ValueString()); err != nil && !client.IsNotFound(err) {
		d.failed(ctx, err)
		return
	}
	if err := d.waitUntilGone(ctx); err != nil {
		d.failed(ctx, err)
		return
	}
	managed := state.ManagedSecrets
	state.ManagedSecrets = types.MapNull(types.StringType)
	d.dropSecrets(ctx, managed)
}

func (r *functionResource) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	if why := notName(request.ID); why != "" {
		response.Diagnostics.AddError("The id is no function's name", why+" Import a function by its name, such as `terraform import sless_function.hello hello`.")
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("name"), request, response)
}
