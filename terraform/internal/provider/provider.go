// Package provider is the Terraform provider of the sless platform.
package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Address is where Terraform finds the provider.
const Address = "terra.k8c.ru/naeel/sless"

// New makes the provider of a release.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &slessProvider{version: version} }
}

type slessProvider struct{ version string }

type providerModel struct {
	Endpoint      types.String `tfsdk:"endpoint"`
	IoTEndpoint   types.String `tfsdk:"iot_endpoint"`
	NubesEndpoint types.String `tfsdk:"nubes_endpoint"`
	Token         types.String `tfsdk:"token"`
}

var (
	_ provider.Provider              = (*slessProvider)(nil)
	_ provider.ProviderWithFunctions = (*slessProvider)(nil)
)

func (p *slessProvider) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName, response.Version = "sless", p.version
}

func (p *slessProvider) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	address := []validator.String{httpURL{}}
	response.Schema = schema.Schema{
		MarkdownDescription: "Functions, and what makes them run, on a sless platform.\n\n" +
			"The token says whose they are: its `sub` claim decides the namespace, which the provider makes where it is not there yet.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional: true, Validators: address,
				MarkdownDescription: "Where the platform answers, such as `https://sless.example.com`. Required, here or in `SLESS_ENDPOINT`.",
			},
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "The tenant's token, a JWT. Required, here or in `SLESS_TOKEN`.",
			},
			"iot_endpoint": schema.StringAttribute{
				Optional: true, Validators: address,
				MarkdownDescription: "Where the platform's device side answers, if devices are used. Also `SLESS_IOT_ENDPOINT`.",
			},
			"nubes_endpoint": schema.StringAttribute{
				Optional: true, Validators: address,
				MarkdownDescription: "The cloud's API. Where it is set, the token has to be taken there too before anything is done. Also `SLESS_NUBES_ENDPOINT`.",
			},
		},
	}
}

func (p *slessProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newFunctionResource, newTriggerResource}
}

func (p *slessProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newNamespaceDataSource, newFunctionDataSource, newInvocationsDataSource}
}

func (p *slessProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newNamespaceOf}
}
