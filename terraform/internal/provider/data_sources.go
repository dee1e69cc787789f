package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/identity"
)

// dataSource is what the data sources share: the provider's client.
type dataSource struct{ provider *configured }

func (d *dataSource) Configure(_ context.Context, request datasource.ConfigureRequest, response *datasource.ConfigureResponse) {
	d.provider = from(request.ProviderData, &response.Diagnostics)
}

func computedString(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func computedNumber(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func notThere(diags *diag.Diagnostics, at, name string, err error) {
	if client.IsNotFound(err) {
		diags.AddAttributeError(path.Root(at), "There is no such function", fmt.Sprintf("There is no function `%s` in this namespace; `sless functions list` shows which there are.", name))
		return
	}
	diags.AddError("The platform can't be asked", err.Error())
}

type namespaceDataSource struct{ dataSource }

func newNamespaceDataSource() datasource.DataSource { return &namespaceDataSource{} }

type namespaceModel struct {
	Name      types.String `tfsdk:"name"`
	Tenant    types.String `tfsdk:"tenant"`
	Subject   types.String `tfsdk:"subject"`
	UID       types.String `tfsdk:"uid"`
	CreatedAt types.String `tfsdk:"created_at"`
}

func (d *namespaceDataSource) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_namespace"
}

func (d *namespaceDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "The namespace of the provider's token.",
		Attributes: map[string]schema.Attribute{
			"name":       computedString("The namespace, `sless-{tenant}`."),
			"tenant":     computedString("The tenant: 16 hex digits, derived from `subject`."),
			"subject":    computedString("The token's `sub` claim."),
			"uid":        computedString("The platform's id of the namespace."),
			"created_at": computedString("When it was made (RFC 3339)."),
		},
	}
}

func (d *namespaceDataSource) Read(ctx context.Context, _ datasource.ReadRequest, response *datasource.ReadResponse) {
	sless, ok := d.provider.connected(&response.Diagnostics)
	if !ok {
		return
	}
	// It is idempotent, and the only call that tells of a namespace.
	info, err := sless.Ensure(ctx)
	if err != nil {
		response.Diagnostics.AddError("The platform can't be asked", err.Error())
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &namespaceModel{
		Name:      types.StringValue(info.Name),
		Tenant:    types.StringValue(identity.Tenant(d.provider.subject)),
		Subject:   types.StringValue(d.provider.subject),
		UID:       types.StringValue(info.UID.String()),
		CreatedAt: types.StringValue(info.CreatedAt.Format(time.RFC3339Nano)),
	})...)
}

type functionDataSource struct{ dataSource }

func newFunctionDataSource() datasource.DataSource { return &functionDataSource{} }

type functionDataModel struct {
	Name           types.String `tfsdk:"name"`
	Runtime        types.String `tfsdk:"runtime"`
	SourceHash     types.String `tfsdk:"source_hash"`
	Entrypoint     types.String `tfsdk:"entrypoint"`
	MemoryMB       types.Int64  `tfsdk:"memory_mb"`
	TimeoutSeconds types.Int64  `tfsdk:"timeout_seconds"`
	Concurrency    types.Int64  `tfsdk:"concurrency"`
	URL            types.String `tfsdk:"url"`
	Version        types.Int64  `tfsdk:"version"`
	ArtifactDigest types.String `tfsdk:"artifact_digest"`
	ImageDigest    types.String `tfsdk:"image_digest"`
	Phase          types.String `tfsdk:"phase"`
	LastError      types.String `tfsdk:"last_error"`
}

func (d *functionDataSource) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_function"
}

func (d *functionDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "A function that is managed elsewhere.",
		Attributes: map[string]schema.Attribute{
			"name":            schema.StringAttribute{Required: true, Validators: []validator.String{aName}, MarkdownDescription: "Its name."},
			"runtime":         computedString("What runs it."),
			"source_hash":     computedString("The platform's hash of its code; null before the first upload."),
			"entrypoint":      computedString("`file.export` of the handler, if it was set."),
			"memory_mb":       computedNumber("Memory of an instance in MiB."),
			"timeout_seconds": computedNumber("Wall clock of a call in seconds."),
			"concurrency":     computedNumber("Calls at once."),
			"url":             computedString("Where it answers; null where no http trigger exposes it."),
			"version":         computedNumber("The version that serves."),
			"artifact_digest": computedString("Functions in the host pool: SHA-256 of the compiled code."),
			"image_digest":    computedString("Container functions: the image, by digest."),
			"phase":           computedString("`Pending`, `Building`, `Ready` or `Failed`."),
			"last_error":      computedString("Why the newest version failed, if it did."),
		},
	}
}

func (d *functionDataSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model functionDataModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	sless, ok := d.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	function, err := sless.Function(ctx, model.Name.ValueString())
	if err != nil {
		notThere(&response.Diagnostics, "name", model.Name.ValueString(), err)
		return
	}
	var read functionModel
	read.read(ctx, function, &response.Diagnostics)
	model = functionDataModel{
		Name: read.Name, Runtime: read.Runtime, SourceHash: read.SourceHash, Entrypoint: read.Entrypoint, MemoryMB: read.MemoryMB,
		TimeoutSeconds: read.TimeoutSeconds, Concurrency: read.Concurrency, URL: read.URL, Version: read.Version,
		ArtifactDigest: read.ArtifactDigest, ImageDigest: read.ImageDigest, Phase: read.Phase,
	}
	if function.Status != nil {
		model.LastError = types.StringPointerValue(function.Status.LastError)
	}
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}

type invocationsDataSource struct{ dataSource }

func newInvocationsDataSource() datasource.DataSource { return &invocationsDataSource{} }

const (
	defaultInvocations = 20
	maxInvocations     = 10_000
)

type invocationsModel struct {
	Function    types.String `tfsdk:"function"`
	Limit       types.Int64  `tfsdk:"limit"`
	Outcome     types.String `tfsdk:"outcome"`
	Invocations types.List   `tfsdk:"invocations"`
}

type invocationModel struct {
	ID              string  `tfsdk:"id"`
	StartedAt       string  `tfsdk:"started_at"`
	DurationUs      int64   `tfsdk:"duration_us"`
	CPUUs           int64   `tfsdk:"cpu_us"`
	PeakMemoryBytes int64   `tfsdk:"peak_memory_bytes"`
	Version         int64   `tfsdk:"version"`
	Trigger         string  `tfsdk:"trigger"`
	Status          int64   `tfsdk:"status"`
	Outcome         string  `tfsdk:"outcome"`
	Cold            *string `tfsdk:"cold"`
	Error           *string `tfsdk:"error"`
	RequestID       *string `tfsdk:"request_id"`
}

var invocationType = map[string]attr.Type{
	"id": types.StringType, "started_at": types.StringType, "duration_us": types.Int64Type, "cpu_us": types.Int64Type,
	"peak_memory_bytes": types.Int64Type, "version": types.Int64Type, "trigger": types.StringType, "status": types.Int64Type,
	"outcome": types.StringType, "cold": types.StringType, "error": types.StringType, "request_id": types.StringType,
}

func (d *invocationsDataSource) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_invocations"
}

func (d *invocationsDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "The newest calls of a function. A row comes shortly after its call.",
		Attributes: map[string]schema.Attribute{
			"function": schema.StringAttribute{Required: true, Validators: []validator.String{aName}, MarkdownDescription: "The function's name."},
			"limit": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(1, maxInvocations)},
				MarkdownDescription: "At most so many, 1 to 10,000; 20 if absent.",
			},
			"outcome": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthBetween(1, maxNameBytes)},
				MarkdownDescription: "Only those that ended like this: `ok`, `function_trapped`, `deadline_exceeded`, and the platform's other outcomes.",
			},
			"invocations": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The calls, newest first.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"id":                computedString("The call's id."),
					"started_at":        computedString("When it came (RFC 3339)."),
					"duration_us":       computedNumber("From the request's head to the response's end, in microseconds."),
					"cpu_us":            computedNumber("Processor time of the function in microseconds."),
					"peak_memory_bytes": computedNumber("The most memory that it had at once, in bytes."),
					"version":           computedNumber("Which version served it."),
					"trigger":           computedString("What made it run, such as `http`."),
					"status":            computedNumber("The HTTP status."),
					"outcome":           computedString("How it ended."),
					"cold":              computedString("How cold its start was; null where nothing was started."),
					"error":             computedString("One sentence where the platform ended the call."),
					"request_id":        computedString("The client's `X-Request-Id`, if it sent one."),
				}},
			},
		},
	}
}

func (d *invocationsDataSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model invocationsModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	sless, ok := d.provider.connected(&response.Diagnostics)
	if !ok || response.Diagnostics.HasError() {
		return
	}
	limit := defaultInvocations
	if !model.Limit.IsNull() {
		limit = int(model.Limit.ValueInt64())
	}
	var params api.ListFunctionInvocationsParams
	if !model.Outcome.IsNull() {
		outcome := api.Outcome(model.Outcome.ValueString())
		params.Outcome = &outcome
	}
	rows, err := sless.Invocations(ctx, model.Function.ValueString(), limit, params)
	if err != nil {
		notThere(&response.Diagnostics, "function", model.Function.ValueString(), err)
		return
	}
	items := make([]invocationModel, 0, len(rows))
	for _, row := range rows {
		items = append(items, invocationModel{
			ID: row.ID.String(), StartedAt: row.StartedAt.Format(time.RFC3339Nano), DurationUs: row.DurationUs, CPUUs: row.CPUUs,
			PeakMemoryBytes: row.PeakMemoryBytes, Version: int64(row.Version), Trigger: string(row.Trigger), Status: int64(row.Status),
			Outcome: string(row.Outcome), Cold: (*string)(row.Cold), Error: row.Error, RequestID: row.RequestID,
		})
	}
	list, more := types.ListValueFrom(ctx, types.ObjectType{AttrTypes: invocationType}, items)
	response.Diagnostics.Append(more...)
	model.Invocations = list
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
