package provider

import (
	"context"
	"errors"
	"fmt"
	gostrings "strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/source"
)

const (
	// A component is ready within a second, an image within minutes.
	firstPoll = 100 * time.Millisecond
	lastPoll  = 3 * time.Second
	// What a diagnostic shows of a build log: its end, where the error is.
	logTailLines = 40
	logTailBytes = 8 << 10
	// After Ctrl-C or a timeout a diagnostic still asks for the log, for so long.
	afterwards = 5 * time.Second
)

// deployment is one change of a function on its way.
type deployment struct {
	client  *client.Client
	plan    *functionModel
	diags   *diag.Diagnostics
	timeout time.Duration
	// what is the operation's name in `timeouts`.
	what string
	code *source.Code
}

func (d *deployment) name() string { return d.plan.Name.ValueString() }

// read reads the code again, which has to be what was planned.
func (d *deployment) read() bool {
	attribute := d.plan.codeAttribute()
	code, err := d.plan.code()
	if err != nil {
		d.diags.AddAttributeError(path.Root(attribute), "The code can't be read", err.Error())
		return false
	}
	if planned := d.plan.SourceHash; !planned.IsUnknown() && planned.ValueString() != code.Hash {
		d.diags.AddAttributeError(path.Root(attribute), "The code was changed since it was planned",
			"It is not what the plan showed, so it was not deployed. Plan and apply again.")
		return false
	}
	d.code, d.plan.SourceHash = code, types.StringValue(code.Hash)
	return true
}

// secrets writes the configured values; next is the revision if the plan left it open.
func (d *deployment) secrets(ctx context.Context, secrets types.Map, private privateWriter, next int64) bool {
	values := known(ctx, secrets, d.diags)
	if d.plan.SecretsRevision.IsUnknown() {
		d.plan.SecretsRevision = types.Int64Null()
		if len(values) > 0 {
			d.plan.SecretsRevision = types.Int64Value(next)
		}
	}
	for variable, value := range values {
		if err := d.client.PutSecret(ctx, secretName(d.name(), variable), value); err != nil {
			d.diags.AddAttributeError(path.Root("secrets"), "A secret can't be written", fmt.Sprintf("`%s`: %s", variable, err))
			return false
		}
	}
	if len(values) > 0 {
		keepSeal(ctx, private, values, d.diags)
	}
	return !d.diags.HasError()
}

// dropSecrets removes those that the function had and has no more.
func (d *deployment) dropSecrets(ctx context.Context, before types.Map) {
	kept := known(ctx, d.plan.ManagedSecrets, d.diags)
	for variable, name := range known(ctx, before, d.diags) {
		if _, stays := kept[variable]; stays {
			continue
		}
		if err := d.client.DeleteSecret(ctx, name); err != nil && !client.IsNotFound(err) {
			d.diags.AddWarning("A secret is left behind", fmt.Sprintf("`%s` is used no more and could not be removed: %s\n\nRemove it with `sless secrets delete %s`.", name, err, name))
		}
	}
}

// deploy uploads code where it is new, and waits until what was asked for serves. The function is as it was seen last.
func (d *deployment) deploy(ctx context.Context, function *api.Function, upload bool) (*api.Function, bool) {
	if upload {
		deployed, err := d.client.Upload(ctx, d.name(), d.code.MediaType, d.code.Bytes)
		if err != nil {
			d.failed(ctx, err)
			return function, false
		}
		function = &deployed.Function
		for _, note := range deployed.Notes {
			d.diags.AddWarning("A note on the code of "+d.name(), note)
		}
		if got := function.Spec.Sha256; got == nil || *got != d.code.Hash {
			d.diags.AddAttributeError(path.Root("source_hash"), "The platform made another hash of the code",
				fmt.Sprintf("The plan said %s, the platform says %s. Use a provider of the platform's release.", d.code.Hash, value(got)))
			return function, false
		}
	}
	serving, err := d.wait(ctx, function)
	if err != nil {
		d.failed(ctx, err)
		return serving, false
	}
	if phase(serving) == api.PhaseFailed {
		d.buildFailed(ctx, serving)
		return serving, false
	}
	return serving, true
}

func value(text *string) string {
	if text == nil {
		return "nothing"
	}
	return *text
}

// wait polls until the platform has looked at the wanted generation and has come to an end with it.
func (d *deployment) wait(ctx context.Context, wanted *api.Function) (*api.Function, error) {
	seen := wanted
	for pause := firstPoll; ; pause = min(pause*3/2, lastPoll) {
		if status := seen.Status; status != nil && status.ObservedGeneration != nil && *status.ObservedGeneration >= wanted.Generation {
			if now := phase(seen); now == api.PhaseReady || now == api.PhaseFailed {
				return seen, nil
			}
		}
		select {
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-time.After(pause):
		}
		next, err := d.client.Function(ctx, d.name())
		if err != nil {
			return seen, err
		}
		if next.UID != wanted.UID {
			return next, errors.New("it was deleted and made anew by someone else meanwhile; plan and apply again")
		}
		seen = next
	}
}

// waitUntilGone waits for what has to be cleaned up before the name is free again.
func (d *deployment) waitUntilGone(ctx context.Context) error {
	for pause := firstPoll; ; pause = min(pause*3/2, lastPoll) {
		if _, err := d.client.Function(ctx, d.name()); client.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// failed says why an operation came to no end, at the attribute where the platform names one.
func (d *deployment) failed(ctx context.Context, err error) {
	var refused *client.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.diags.AddAttributeError(path.Root("timeouts").AtName(d.what), "The function was not done in time",
			fmt.Sprintf("The %s of `%s` took longer than %s: %s. It may still come to its end: plan again to see, and raise `timeouts.%s` if it needs longer.",
				d.what, d.name(), d.timeout, err, d.what))
	case ctx.Err() != nil:
		d.diags.AddError("The function was interrupted",
			fmt.Sprintf("The %s of `%s` was stopped before its end. What the platform had begun goes on there; the next plan shows what is left to do.", d.what, d.name()))
	case errors.As(err, &refused) && len(refused.Fields) > 0:
		for _, field := range refused.Fields {
			if at, found := attribute(field.Pointer, d.plan); found {
				d.diags.AddAttributeError(at, "The platform refused the value", field.Detail)
			} else {
				d.diags.AddError("The platform refused the function", refused.Error())
			}
		}
	case errors.As(err, &refused) && (refused.Code == string(api.CodeInvalidComponent) || refused.Code == string(api.CodeInvalidSource) || refused.Code == string(api.CodePayloadTooLarge)):
		d.diags.AddAttributeError(path.Root(d.plan.codeAttribute()), "The platform refused the code", refused.Error())
	default:
		d.diags.AddError(fmt.Sprintf("The %s of function %s failed", d.what, d.name()), err.Error())
	}
}

// buildFailed says why a version does not serve, with the end of what its build printed.
func (d *deployment) buildFailed(ctx context.Context, function *api.Function) {
	detail := "The platform gave no reason."
	if function.Status != nil && function.Status.LastError != nil {
		detail = *function.Status.LastError
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	if log, err := d.client.BuildLog(ctx, d.name()); err == nil && gostrings.TrimSpace(log) != "" {
		detail += "\n\nThe end of the build log:\n" + tail(log)
	}
	d.diags.AddAttributeError(path.Root(d.plan.codeAttribute()), fmt.Sprintf("The build of function %s failed", d.name()), detail)
}

func tail(log string) string {
	lines := gostrings.Split(gostrings.TrimRight(log, "\n"), "\n")
	text := gostrings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
	return gostrings.ToValidUTF8(text[max(0, len(text)-logTailBytes):], "�")
}
