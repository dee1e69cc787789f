package provider

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/client"
	"terra.k8c.ru/naeel/terraform-provider-sless/internal/identity"
)

// configureTimeout bounds what is asked of the platform before anything is planned.
const configureTimeout = time.Minute

// configured is what resources and data sources get.
type configured struct {
	// client is nil while the provider's configuration is not known yet.
	client *client.Client
	// subject is the token's sub.
	subject string
	// unknown is the attribute that is not known yet; empty where all are.
	unknown string
}

// settings are the provider's, from the configuration or else the environment.
type settings struct{ endpoint, iot, nubes, token string }

func (p *slessProvider) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var model providerModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	if name := model.unknown(); name != "" {
		// A plan can be made without the platform, and a token that another resource makes is known when that is applied.
		if request.ClientCapabilities.DeferralAllowed {
			response.Deferred = &provider.Deferred{Reason: provider.DeferredReasonProviderConfigUnknown}
		}
		waiting := &configured{unknown: name}
		response.ResourceData, response.DataSourceData = waiting, waiting
		return
	}
	set := model.settings(&response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	subject, err := identity.Subject(set.token, time.Now())
	if err != nil {
		response.Diagnostics.AddAttributeError(path.Root("token"), "The token can't be used",
			fmt.Sprintf("The token of %s is refused: %s. Get a new one and set it.", origin(model.Token, "SLESS_TOKEN"), err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, configureTimeout)
	defer cancel()
	ready := p.connect(ctx, set, subject, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	response.ResourceData, response.DataSourceData = ready, ready
}

// connect asks the cloud whether it takes the token, and makes the tenant's namespaces.
func (p *slessProvider) connect(ctx context.Context, set settings, subject string, diags *diag.Diagnostics) *configured {
	agent := "terraform-provider-sless/" + p.version
	if set.nubes != "" {
		if err := client.Probe(ctx, set.nubes, set.token, agent); client.IsDenied(err) {
			diags.AddAttributeError(path.Root("token"), "The cloud does not take the token",
				fmt.Sprintf("%s refused it. Get a token of this cloud, or set `nubes_endpoint` to the cloud that the token is of.", set.nubes))
			return nil
		} else if err != nil {
			diags.AddAttributeError(path.Root("nubes_endpoint"), "The cloud can't be reached", remedy(err))
			return nil
		}
	}
	sless, err := client.New(set.endpoint, set.token, identity.Namespace(subject), agent)
	if err == nil {
		_, err = sless.Ensure(ctx)
	}
	if err != nil {
		ensureFailed(diags, "endpoint", set.endpoint, err)
		return nil
	}
	if set.iot != "" {
		iot, err := client.New(set.iot, set.token, identity.IoTNamespace(subject), agent)
		if err == nil {
			_, err = iot.Ensure(ctx)
		}
		if err != nil {
			ensureFailed(diags, "iot_endpoint", set.iot, err)
			return nil
		}
	}
	return &configured{client: sless, subject: subject}
}

func ensureFailed(diags *diag.Diagnostics, attribute, endpoint string, err error) {
	if client.IsDenied(err) {
		diags.AddAttributeError(path.Root("token"), "The platform does not take the token",
			fmt.Sprintf("%s refused it: %s\n\nGet a token of this platform, or set `%s` to the platform that the token is of.", endpoint, err, attribute))
		return
	}
	diags.AddAttributeError(path.Root(attribute), "The platform can't be used", remedy(err))
}

func remedy(err error) string {
	return fmt.Sprintf("%s\n\nCheck the address, that it can be reached from here, and that the platform runs.", err)
}

// unknown is the first attribute whose value comes later.
func (m providerModel) unknown() string {
	for _, attribute := range []struct {
		name  string
		value types.String
	}{{"endpoint", m.Endpoint}, {"token", m.Token}, {"iot_endpoint", m.IoTEndpoint}, {"nubes_endpoint", m.NubesEndpoint}} {
		if attribute.value.IsUnknown() {
			return attribute.name
		}
	}
	return ""
}

func (m providerModel) settings(diags *diag.Diagnostics) settings {
	set := settings{
		endpoint: or(m.Endpoint, "SLESS_ENDPOINT"),
		iot:      or(m.IoTEndpoint, "SLESS_IOT_ENDPOINT"),
		nubes:    or(m.NubesEndpoint, "SLESS_NUBES_ENDPOINT"),
		token:    strings.TrimSpace(or(m.Token, "SLESS_TOKEN")),
	}
	for _, required := range []struct{ name, value, variable, example string }{
		{"endpoint", set.endpoint, "SLESS_ENDPOINT", "https://sless.example.com"},
		{"token", set.token, "SLESS_TOKEN", "what `sless token` prints, or your cloud's token"},
	} {
		if required.value == "" {
			diags.AddAttributeError(path.Root(required.name), fmt.Sprintf("There is no %s", required.name),
				fmt.Sprintf("Set `%s` in the provider's block or %s in the environment, for example to %s.", required.name, required.variable, required.example))
		}
	}
	// Those of the configuration were checked when it was validated.
	for _, address := range []struct{ name, value string }{{"endpoint", set.endpoint}, {"iot_endpoint", set.iot}, {"nubes_endpoint", set.nubes}} {
		if why := notHTTP(address.value); address.value != "" && why != "" {
			diags.AddAttributeError(path.Root(address.name), "The address can't be used", why)
		}
	}
	return set
}

func or(value types.String, variable string) string {
	if value.ValueString() == "" {
		return os.Getenv(variable)
	}
	return value.ValueString()
}

func origin(value types.String, variable string) string {
	if value.ValueString() == "" {
		return variable
	}
	return "the provider's block"
}

// from takes what Configure made; nil in the calls that come before it.
func from(data any, diags *diag.Diagnostics) *configured {
	if data == nil {
		return nil
	}
	ready, ok := data.(*configured)
	if !ok {
		diags.AddError("The provider gave something unexpected", fmt.Sprintf("It gave %T. This is a fault of the provider; please report it.", data))
	}
	return ready
}

// connected is the client, or an error that says what is missing.
func (c *configured) connected(diags *diag.Diagnostics) (*client.Client, bool) {
	if c == nil || c.client == nil {
		name := "endpoint"
		if c != nil && c.unknown != "" {
			name = c.unknown
		}
		diags.AddError("The provider's configuration is not known yet",
			fmt.Sprintf("The provider's `%s` comes from something that is not there yet. Apply that first, for example with `terraform apply -target=…`, then this.", name))
		return nil, false
	}
	return c.client, true
}
