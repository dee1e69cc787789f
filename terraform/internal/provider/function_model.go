package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/source"
)

type functionModel struct {
	Name            types.String   `tfsdk:"name"`
	Runtime         types.String   `tfsdk:"runtime"`
	Component       types.String   `tfsdk:"component"`
	SourceZip       types.String   `tfsdk:"source_zip"`
	SourceDir       types.String   `tfsdk:"source_dir"`
	SourceHash      types.String   `tfsdk:"source_hash"`
	Entrypoint      types.String   `tfsdk:"entrypoint"`
	MemoryMB        types.Int64    `tfsdk:"memory_mb"`
	TimeoutSeconds  types.Int64    `tfsdk:"timeout_seconds"`
	Concurrency     types.Int64    `tfsdk:"concurrency"`
	MinReplicas     types.Int64    `tfsdk:"min_replicas"`
	MaxReplicas     types.Int64    `tfsdk:"max_replicas"`
	Reuse           types.Bool     `tfsdk:"reuse"`
	Limits          types.Object   `tfsdk:"limits"`
	Env             types.Map      `tfsdk:"env"`
	Secrets         types.Map      `tfsdk:"secrets"`
	SecretRefs      types.Map      `tfsdk:"secret_refs"`
	ManagedSecrets  types.Map      `tfsdk:"managed_secrets"`
	SecretsRevision types.Int64    `tfsdk:"secrets_revision"`
	Egress          *egressModel   `tfsdk:"egress"`
	URL             types.String   `tfsdk:"url"`
	Version         types.Int64    `tfsdk:"version"`
	ArtifactDigest  types.String   `tfsdk:"artifact_digest"`
	ImageDigest     types.String   `tfsdk:"image_digest"`
	Phase           types.String   `tfsdk:"phase"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

type egressModel struct {
	Allow types.List `tfsdk:"allow"`
}

type limitsModel struct {
	CPUMs         types.Int64 `tfsdk:"cpu_ms"`
	RequestBytes  types.Int64 `tfsdk:"request_bytes"`
	ResponseBytes types.Int64 `tfsdk:"response_bytes"`
	LogBytes      types.Int64 `tfsdk:"log_bytes"`
	RatePerSecond types.Int64 `tfsdk:"rate_per_second"`
}

// spec is what the platform is asked for. All values are known.
func (m *functionModel) spec(ctx context.Context, diags *diag.Diagnostics) api.FunctionSpec {
	var limits limitsModel
	diags.Append(m.Limits.As(ctx, &limits, objectOptions)...)
	env := known(ctx, m.Env, diags)
	refs := known(ctx, m.SecretRefs, diags)
	for variable, name := range known(ctx, m.ManagedSecrets, diags) {
		refs[variable] = name
	}
	spec := api.FunctionSpec{
		Runtime:        api.Runtime(m.Runtime.ValueString()),
		Entrypoint:     m.Entrypoint.ValueStringPointer(),
		MemoryMb:       narrow(m.MemoryMB),
		TimeoutSeconds: narrow(m.TimeoutSeconds),
		Concurrency:    narrow(m.Concurrency),
		MinReplicas:    narrow(m.MinReplicas),
		MaxReplicas:    narrow(m.MaxReplicas),
		Reuse:          m.Reuse.ValueBoolPointer(),
		Env:            &env,
		SecretRefs:     &refs,
		Limits: &api.CallLimits{
			CPUMs:         narrow(limits.CPUMs),
			RequestBytes:  limits.RequestBytes.ValueInt64Pointer(),
			ResponseBytes: limits.ResponseBytes.ValueInt64Pointer(),
			LogBytes:      narrow(limits.LogBytes),
			RatePerSecond: narrow(limits.RatePerSecond),
		},
	}
	if m.Egress != nil {
		allow := []string{}
		diags.Append(m.Egress.Allow.ElementsAs(ctx, &allow, false)...)
		spec.Egress = &api.Egress{Allow: &allow}
	}
	return spec
}

// read takes what the platform has. What the platform can't tell stays: paths, timeouts, the revision of secrets.
func (m *functionModel) read(ctx context.Context, function *api.Function, diags *diag.Diagnostics) {
	spec := function.Spec
	m.Name = types.StringValue(function.Name)
	m.Runtime = types.StringValue(string(spec.Runtime))
	m.SourceHash = types.StringPointerValue(spec.Sha256)
	m.Entrypoint = types.StringPointerValue(spec.Entrypoint)
	m.MemoryMB = widen(spec.MemoryMb)
	m.TimeoutSeconds = widen(spec.TimeoutSeconds)
	m.Concurrency = widen(spec.Concurrency)
	m.MinReplicas = widen(spec.MinReplicas)
	m.MaxReplicas = widen(spec.MaxReplicas)
	m.Reuse = types.BoolPointerValue(spec.Reuse)
	if spec.Limits != nil {
		limits, more := types.ObjectValueFrom(ctx, limitsType, limitsModel{
			CPUMs:         widen(spec.Limits.CPUMs),
			RequestBytes:  types.Int64PointerValue(spec.Limits.RequestBytes),
			ResponseBytes: types.Int64PointerValue(spec.Limits.ResponseBytes),
			LogBytes:      widen(spec.Limits.LogBytes),
			RatePerSecond: widen(spec.Limits.RatePerSecond),
		})
		diags.Append(more...)
		m.Limits = limits
	}
	managed, refs := map[string]string{}, map[string]string{}
	if spec.SecretRefs != nil {
		for variable, name := range *spec.SecretRefs {
			if name == secretName(function.Name, variable) {
				managed[variable] = name
			} else {
				refs[variable] = name
			}
		}
	}
	env := map[string]string{}
	if spec.Env != nil {
		env = *spec.Env
	}
	m.Env = mapOrAbsent(ctx, env, m.Env, diags)
	m.SecretRefs = mapOrAbsent(ctx, refs, m.SecretRefs, diags)
	m.ManagedSecrets = mapOrAbsent(ctx, managed, types.MapNull(types.StringType), diags)
	m.Secrets = types.MapNull(types.StringType)
	m.Egress = nil
	if spec.Egress != nil && spec.Egress.Allow != nil && len(*spec.Egress.Allow) > 0 {
		allow, more := types.ListValueFrom(ctx, types.StringType, *spec.Egress.Allow)
		diags.Append(more...)
		m.Egress = &egressModel{Allow: allow}
	}
	m.readStatus(function)
}

// readStatus takes what the platform reports.
func (m *functionModel) readStatus(function *api.Function) {
	status := api.FunctionStatus{}
	if function.Status != nil {
		status = *function.Status
	}
	m.URL = types.StringPointerValue(status.URL)
	m.Version = widen(status.Version)
	m.ImageDigest = types.StringPointerValue(status.Image)
	m.ArtifactDigest = types.StringNull()
	if status.Artifact != nil {
		m.ArtifactDigest = types.StringValue(status.Artifact.Digest)
	}
	m.Phase = types.StringValue(string(phase(function)))
}

func phase(function *api.Function) api.Phase {
	if function.Status == nil || function.Status.Phase == nil {
		return api.PhasePending
	}
	return *function.Status.Phase
}

// codeAttribute is where the code is named.
func (m *functionModel) codeAttribute() string {
	switch {
	case !m.SourceZip.IsNull():
		return "source_zip"
	case !m.SourceDir.IsNull():
		return "source_dir"
	}
	return "component"
}

// code reads what is to be uploaded; it is nil while it is not known what that is.
func (m *functionModel) code() (*source.Code, error) {
	if m.Entrypoint.IsUnknown() || m.Component.IsUnknown() || m.SourceZip.IsUnknown() || m.SourceDir.IsUnknown() {
		return nil, nil
	}
	var code *source.Code
	var err error
	name := ""
	switch m.codeAttribute() {
	case "source_zip":
		name = m.SourceZip.ValueString()
		code, err = source.Archive(name, m.Entrypoint.ValueString())
	case "source_dir":
		name = m.SourceDir.ValueString()
		code, err = source.Folder(name, m.Entrypoint.ValueString())
	default:
		name = m.Component.ValueString()
		code, err = source.Component(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return code, nil
}

// sameSettings is whether the platform would be asked for the same settings.
func (m *functionModel) sameSettings(other *functionModel) bool {
	return m.Runtime.Equal(other.Runtime) && m.Entrypoint.Equal(other.Entrypoint) && m.MemoryMB.Equal(other.MemoryMB) &&
		m.TimeoutSeconds.Equal(other.TimeoutSeconds) && m.Concurrency.Equal(other.Concurrency) && m.MinReplicas.Equal(other.MinReplicas) &&
		m.MaxReplicas.Equal(other.MaxReplicas) && m.Reuse.Equal(other.Reuse) && m.Limits.Equal(other.Limits) &&
		sameMap(m.Env, other.Env) && sameMap(m.SecretRefs, other.SecretRefs) && sameMap(m.ManagedSecrets, other.ManagedSecrets) &&
		m.Egress.equal(other.Egress)
}

// sameCode is whether the same would be built.
func (m *functionModel) sameCode(other *functionModel) bool {
	return m.SourceHash.Equal(other.SourceHash) && m.Runtime.Equal(other.Runtime) && m.Entrypoint.Equal(other.Entrypoint)
}

func (e *egressModel) equal(other *egressModel) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Allow.Equal(other.Allow)
}

// sameMap takes an absent map for an empty one, as the platform does.
func sameMap(one, other types.Map) bool {
	if one.IsUnknown() || other.IsUnknown() {
		return false
	}
	return one.Equal(other) || len(one.Elements()) == 0 && len(other.Elements()) == 0
}
