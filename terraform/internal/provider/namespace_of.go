package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/identity"
)

type namespaceOf struct{}

func newNamespaceOf() function.Function { return namespaceOf{} }

func (namespaceOf) Metadata(_ context.Context, _ function.MetadataRequest, response *function.MetadataResponse) {
	response.Name = "namespace_of"
}

func (namespaceOf) Definition(_ context.Context, _ function.DefinitionRequest, response *function.DefinitionResponse) {
	response.Definition = function.Definition{
		Summary: "The namespace of a token's subject",
		MarkdownDescription: "Answers `sless-` and the first 8 bytes of SHA-256 of the subject as hex digits: the namespace that the platform gives " +
			"to tokens with this `sub` claim. It asks nobody.",
		Parameters: []function.Parameter{function.StringParameter{Name: "sub", MarkdownDescription: "The `sub` claim of a token."}},
		Return:     function.StringReturn{},
	}
}

func (namespaceOf) Run(ctx context.Context, request function.RunRequest, response *function.RunResponse) {
	var subject string
	if response.Error = request.Arguments.Get(ctx, &subject); response.Error != nil {
		return
	}
	if subject == "" {
		response.Error = function.NewArgumentFuncError(0, "A subject is not empty: it is the `sub` claim of a token")
		return
	}
	response.Error = response.Result.Set(ctx, identity.Namespace(subject))
}
