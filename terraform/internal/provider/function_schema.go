package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
)

// functionSchemaVersion counts changes of the schema that an older state has to be upgraded for.
const functionSchemaVersion = 1

// The platform's defaults. They stand here too, so that a plan shows what will be.
const (
	defaultMemoryMB       = 128
	defaultTimeoutSeconds = 30
	defaultConcurrency    = 100
	defaultMaxReplicas    = 3
	defaultCPUMs          = 10_000
	defaultBodyBytes      = 6 << 20
	defaultLogBytes       = 64 << 10
)

var limitsType = map[string]attr.Type{
	"cpu_ms": types.Int64Type, "request_bytes": types.Int64Type, "response_bytes": types.Int64Type,
	"log_bytes": types.Int64Type, "rate_per_second": types.Int64Type,
}

func (r *functionResource) Schema(ctx context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		Version: functionSchemaVersion,
		MarkdownDescription: "A function: its code, what runs it, and what a call may use.\n\n" +
			"Creating waits until the function is ready to serve. It answers on HTTP where a `sless_trigger` says so. A build that fails keeps " +
			"the function, marked as tainted, and shows the end of the build log.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{aName},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Its name in the namespace: lower-case letters, digits and hyphens, at most 48. Another name is another function.",
			},
			"runtime": schema.StringAttribute{
				Required: true, Validators: []validator.String{stringvalidator.OneOf(runtimes...)},
				MarkdownDescription: "What runs it: `wasm` (a component made elsewhere), `wasm-js`, `wasm-python`, `nodejs20`, `python3.11`. The runtimes of one " +
					"language take the same source, so changing only `runtime` moves a function between the host pool and a container.",
			},
			"component": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Path of a WebAssembly component that exports `wasi:http/incoming-handler`. With runtime `wasm` only.",
			},
			"source_zip": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Path of a zip archive with the source.",
			},
			"source_dir": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Path of a folder with the source. What `.slessignore` names (it is written as `.gitignore` is) stays behind, " +
					"and so do version control, installed packages, caches, `.env` and Terraform's own files.",
			},
			"source_hash": schema.StringAttribute{
				Computed: true,
				MarkdownDescription: "The platform's hash of the code. It depends on paths and bytes of the files only, so it is the same on every system. " +
					"Of a component it is SHA-256 of its bytes; of source, SHA-256 of what `sha256sum` prints for all files in the order of their paths.",
			},
			"entrypoint": schema.StringAttribute{
				Optional: true, Validators: []validator.String{anEntry},
				MarkdownDescription: "`file.export` of the handler, for functions made from source; `handler.handler` if absent.",
			},
			"memory_mb":       number("Memory of an instance in MiB, 1 to 2048.", defaultMemoryMB, 1, 2048),
			"timeout_seconds": number("Wall clock of a call in seconds, 1 to 900.", defaultTimeoutSeconds, 1, 900),
			"concurrency":     number("Calls at once, 1 to 10,000.", defaultConcurrency, 1, 10_000),
			"min_replicas":    number("Containers: how many run at least.", 0, 0, 100),
			"max_replicas":    number("Containers: how many run at most, 1 to 100.", defaultMaxReplicas, 1, 100),
			"reuse": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether an instance may serve one call after another. By default each call has a fresh one, which can't carry one call's data into the next.",
			},
			"limits": schema.SingleNestedAttribute{
				Optional: true, Computed: true, Default: objectdefault.StaticValue(defaultLimits()),
				MarkdownDescription: "What a call may use beyond memory and time.",
				Attributes: map[string]schema.Attribute{
					"cpu_ms":         number("Processor time of a call in milliseconds, 1 to 900,000.", defaultCPUMs, 1, 900_000),
					"request_bytes":  number("Size of a request's body in bytes, at most 104,857,600.", defaultBodyBytes, 0, maxBodyBytes),
					"response_bytes": number("Size of a response's body in bytes, at most 104,857,600.", defaultBodyBytes, 0, maxBodyBytes),
					"log_bytes":      number("What a call may log in bytes, at most 1,048,576; the rest is dropped and counted.", defaultLogBytes, 0, maxLogBytes),
					"rate_per_second": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.Between(1, 1_000_000)},
						MarkdownDescription: "Calls a second, 1 to 1,000,000; no limit if absent.",
					},
				},
			},
			"env": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				Validators: []validator.Map{
					mapvalidator.SizeAtMost(maxEnvVars), mapvalidator.KeysAre(aVariable), mapvalidator.ValueStringsAre(aValue),
				},
				MarkdownDescription: "Environment variables. They are kept in the state; use `secrets` for what must not be.",
			},
			"secrets": schema.MapAttribute{
				Optional: true, WriteOnly: true, Sensitive: true, ElementType: types.StringType,
				Validators: []validator.Map{
					mapvalidator.SizeAtMost(maxEnvVars), mapvalidator.KeysAre(aVariable), mapvalidator.ValueStringsAre(aSecret),
				},
				MarkdownDescription: "Environment variables whose values are secrets. The values are written to the platform and kept neither in the plan nor in the " +
					"state; a salted slow hash tells whether they changed. Values may be ephemeral.",
			},
			"secret_refs": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				Validators:          []validator.Map{mapvalidator.SizeAtMost(maxEnvVars), mapvalidator.KeysAre(aVariable), mapvalidator.ValueStringsAre(aName)},
				MarkdownDescription: "Environment variables whose values are secrets that are managed elsewhere, such as by `sless secrets set`: variable → name of the secret.",
			},
			"managed_secrets": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Under which names the platform has the values of `secrets`: variable → name of the secret.",
			},
			"secrets_revision": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Counts the changes of `secrets`, so that a plan shows that there is one.",
			},
			"egress": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Where it may connect to. Any public address if absent.",
				Attributes: map[string]schema.Attribute{
					"allow": schema.ListAttribute{
						Required: true, ElementType: types.StringType,
						Validators: []validator.List{listvalidator.SizeBetween(1, maxEgressRules), listvalidator.ValueStringsAre(anEgress)},
						MarkdownDescription: "Each is `host`, `host:port`, `address`, `address:port`, `network/prefix` or `network/prefix:port`; `*` stands for all public " +
							"addresses. Nothing else is reached.",
					},
				},
			},
			"url": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Where it answers; null while no http trigger exposes it. A trigger made in the same run appears here with the next refresh: use the trigger's `url`.",
			},
			"version": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "The version that serves. Every change of code or settings makes one.",
			},
			"artifact_digest": schema.StringAttribute{Computed: true, MarkdownDescription: "Functions in the host pool: SHA-256 of the compiled code."},
			"image_digest":    schema.StringAttribute{Computed: true, MarkdownDescription: "Container functions: the image, by digest."},
			"phase": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "`Pending`, `Building`, `Ready` or `Failed`. A plan promises `Ready`.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, Update: true, Delete: true,
				CreateDescription: "How long to wait until the function is ready, such as `10m`; 10 minutes by default.",
				UpdateDescription: "How long to wait until the change serves; 10 minutes by default.",
				DeleteDescription: "How long to wait until the function is gone; 5 minutes by default.",
			}),
		},
	}
}

var runtimes = []string{string(api.RuntimeWasm), string(api.RuntimeWasmJs), string(api.RuntimeWasmPython), string(api.RuntimeNodejs20), string(api.RuntimePython311)}

func number(description string, value, low, high int64) schema.Int64Attribute {
	return schema.Int64Attribute{
		Optional: true, Computed: true, Default: int64default.StaticInt64(value),
		Validators:          []validator.Int64{int64validator.Between(low, high)},
		MarkdownDescription: description,
	}
}

func defaultLimits() types.Object {
	return types.ObjectValueMust(limitsType, map[string]attr.Value{
		"cpu_ms": types.Int64Value(defaultCPUMs), "request_bytes": types.Int64Value(defaultBodyBytes), "response_bytes": types.Int64Value(defaultBodyBytes),
		"log_bytes": types.Int64Value(defaultLogBytes), "rate_per_second": types.Int64Null(),
	})
}
