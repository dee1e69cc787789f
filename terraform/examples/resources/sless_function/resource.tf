# A component that was built elsewhere.
resource "sless_function" "hello" {
  name      = "hello"
  runtime   = "wasm"
  component = "${path.module}/hello.wasm"

  memory_mb       = 32
  timeout_seconds = 5
  limits          = { cpu_ms = 1000, rate_per_second = 100 }

  env = { GREETING = "good day" }
}

# JavaScript from a folder. With runtime = "nodejs20" the same source runs in a container.
resource "sless_function" "report" {
  name       = "report"
  runtime    = "wasm-js"
  source_dir = "${path.module}/report"
  entrypoint = "handler.handler"

  # Written to the platform; neither in the plan nor in the state.
  secrets = { API_KEY = var.api_key }
  egress  = { allow = ["api.example.com:443"] }

  timeouts = { create = "5m" }
}

variable "api_key" {
  type      = string
  sensitive = true
  ephemeral = true
}
