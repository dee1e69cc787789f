data "sless_invocations" "failed" {
  function = "hello"
  outcome  = "function_trapped"
  limit    = 10
}

output "failures" {
  value = [for call in data.sless_invocations.failed.invocations : "${call.started_at} ${call.error}"]
}
