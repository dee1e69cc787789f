// Terraform provider of the sless platform.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/provider"
)

// version is set by the linker when a release is made.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "serve for a debugger: print TF_REATTACH_PROVIDERS and wait")
	flag.Parse()
	options := providerserver.ServeOpts{Address: provider.Address, Debug: *debug, ProtocolVersion: 6}
	if err := providerserver.Serve(context.Background(), provider.New(version), options); err != nil {
		log.Fatal(err)
	}
}
