# Two functions behind URLs, one of them with a secret, and a look at how their last calls went.
terraform {
  required_providers {
    sless = {
      source = "terra.k8c.ru/naeel/sless"
    }
  }
  required_version = ">= 1.11"
}

# SLESS_ENDPOINT and SLESS_TOKEN say where and whose.
provider "sless" {}

variable "hello" {
  description = "The built component of examples/hello."
  type        = string
  default     = "~/.cache/sless/guests/hello.wasm"
}

variable "expenses" {
  description = "The built component of examples/expenses."
  type        = string
  default     = "~/.cache/sless/guests/expenses.wasm"
}

variable "api_key" {
  description = "Written to the platform; in neither plan nor state."
  type        = string
  default     = "change me"
  sensitive   = true
  ephemeral   = true
}

locals {
  components = {
    hello    = var.hello
    expenses = var.expenses
  }
}

resource "sless_function" "all" {
  for_each = local.components

  name      = each.key
  runtime   = "wasm"
  component = pathexpand(each.value)
  memory_mb = 64

  limits  = { cpu_ms = 2000, rate_per_second = 200 }
  env     = { LOG_LEVEL = "info" }
  secrets = { API_KEY = var.api_key }
}

resource "sless_trigger" "all" {
  for_each = sless_function.all

  name     = each.key
  function = each.value.name
  http     = {}
}

data "sless_invocations" "hello" {
  function = sless_function.all["hello"].name
  limit    = 5
}

output "hello_url" {
  value = sless_trigger.all["hello"].url
}

output "expenses_url" {
  value = sless_trigger.all["expenses"].url
}

output "last_calls" {
  value = [for call in data.sless_invocations.hello.invocations : "${call.started_at} ${call.outcome} ${call.duration_us} us"]
}
