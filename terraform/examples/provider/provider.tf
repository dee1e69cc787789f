terraform {
  required_providers {
    sless = {
      source = "terra.k8c.ru/naeel/sless"
    }
  }
  # Write-only attributes, which keep secrets out of the state.
  required_version = ">= 1.11"
}

# Without a block for the provider, SLESS_ENDPOINT and SLESS_TOKEN say the same.
provider "sless" {
  endpoint = "http://127.0.0.1:9090"
  token    = var.token
}

variable "token" {
  description = "The tenant's token; `sless token` prints that of a running `sless dev`."
  type        = string
  sensitive   = true
  ephemeral   = true
}
