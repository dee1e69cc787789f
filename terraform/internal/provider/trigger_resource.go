package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
)

// triggerTimeout bounds retries: a trigger works at once.
const triggerTimeout = 2 * time.Minute

type triggerResource struct{ provider *configured }

var (
	_ resource.ResourceWithConfigure   = (*triggerResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*triggerResource)(nil)
	_ resource.ResourceWithImportState = (*triggerResource)(nil)
)

func newTriggerResource() resource.Resource { return &triggerResource{} }

type triggerModel struct {
	Name     types.String `tfsdk:"name"`
	Function types.String `tfsdk:"function"`
	HTTP     *httpModel   `tfsdk:"http"`
	URL      types.String `tfsdk:"url"`
}

type httpModel struct {
	Auth types.String `tfsdk:"auth"`
}

func (r *triggerResource) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_trigger"
}

func (r *triggerResource) Configure(_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse) {
	r.provider = from(request.ProviderData, &response.Diagnostics)
}

func (r *triggerResource) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "What makes a function run. A function without a trigger is reached through the API alone.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{aName},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Its name in the namespace; often the function's. Another name is another trigger.",
			},
			"function": schema.StringAttribute{
				Required: true, Validators: []validator.String{aName},
				MarkdownDescription: "The name of the function that runs.",
			},
			// Other kinds will stand beside it; then it is optional.
			"http": schema.SingleNestedAttribute{
				Required:            true,
				MarkdownDescription: "Runs on HTTP calls at `url` and below.",
				Attributes: map[string]schema.Attribute{
					"auth": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString(string(api.HTTPAuthNone)),
						Validators:          []validator.String{stringvalidator.OneOf(string(api.HTTPAuthNone))},
						MarkdownDescription: "Who may call; `none` asks for nothing.",
					},
				},
			},
			"url": schema.StringAttribute{Computed: true, MarkdownDescription: "Where the function answers."},
		},
	}
}

// ModifyPlan keeps the URL, unless another function answers.
func (r *triggerResource) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if request.Plan.Raw.IsNull() || request.State.Raw.IsNull() {
		return
	}
	var plan, state triggerModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() || !plan.Function.Equal(state.Function) || !plan.Name.Equal(state.Name) {
		return
	}
	response.Diagnostics.Append(response.Plan.SetAttribute(ctx, path.Root("url"), state.URL)...)
}

func (m *triggerModel) spec() api.TriggerSpec {
	auth := api.HTTPAuth(m.HTTP.Auth.ValueString())
	return api.TriggerSpec{Function: m.Function.ValueString(), HTTP: api.HTTPTrigger{Auth: &auth}}
}

func (m *triggerModel) read(trigger *api.Trigger) {
	auth := api.HTTPAuthNone
	if trigger.Spec.HTTP.Auth != nil {
		auth = *trigger.Spec.HTTP.Auth
	}
	m.Name = types.StringValue(trigger.Name)
	m.Function = types.StringValue(trigger.Spec.Function)
	m.HTTP = &httpModel{Auth: types.StringValue(string(auth))}
	m.URL = types.StringNull()
	if trigger.Status != nil {
		m.URL = types.StringPointerValue(trigger.Status.URL)
	}
}

func (r *triggerResource) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan triggerModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, triggerTimeout)
	defer cancel()
	trigger, err := sless.CreateTrigger(ctx, plan.Name.ValueString(), plan.spec())
	if client.IsConflict(err) {
		response.Diagnostics.AddAttributeError(path.Root("name"), "There is such a trigger already",
			fmt.Sprintf("A trigger `%[1]s` is there and is not managed here. Choose another name, or manage it: `terraform import ADDRESS %[1]s`.", plan.Name.ValueString()))
		return
	}
	if err != nil {
		triggerFailed(&response.Diagnostics, "create", plan.Name, err)
		return
	}
	plan.read(trigger)
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (r *triggerResource) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state triggerModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	if r.provider != nil && r.provider.unknown != "" {
		response.Diagnostics.AddWarning("The trigger was not read",
			fmt.Sprintf("The provider's `%s` is not known yet, so the state of `%s` is taken as it was.", r.provider.unknown, state.Name.ValueString()))
		return
	}
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, triggerTimeout)
	defer cancel()
	trigger, err := sless.Trigger(ctx, state.Name.ValueString())
	if client.IsNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		triggerFailed(&response.Diagnostics, "read", state.Name, err)
		return
	}
	state.read(trigger)
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func (r *triggerResource) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan triggerModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, triggerTimeout)
	defer cancel()
	trigger, err := sless.UpdateTrigger(ctx, plan.Name.ValueString(), plan.spec())
	if err != nil {
		triggerFailed(&response.Diagnostics, "update", plan.Name, err)
		return
	}
	plan.read(trigger)
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (r *triggerResource) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state triggerModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	sless, ok := r.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, triggerTimeout)
	defer cancel()
	if err := sless.DeleteTrigger(ctx, state.Name.ValueString()); err != nil && !client.IsNotFound(err) {
		triggerFailed(&response.Diagnostics, "delete", state.Name, err)
	}
}

func (r *triggerResource) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	if why := notName(request.ID); why != "" {
		response.Diagnostics.AddError("The id is no trigger's name", why+" Import a trigger by its name, such as `terraform import sless_trigger.hello hello`.")
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("name"), request, response)
}

func triggerFailed(diags *diag.Diagnostics, what string, name types.String, err error) {
	var refused *client.Error
	if errors.As(err, &refused) {
		for _, field := range refused.Fields {
			if at, found := attribute(field.Pointer, &functionModel{}); found {
				diags.AddAttributeError(at, "The platform refused the value", field.Detail)
				return
			}
		}
	}
	diags.AddError(fmt.Sprintf("The %s of trigger %s failed", what, name.ValueString()), err.Error())
}
