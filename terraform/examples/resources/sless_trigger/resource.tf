resource "sless_trigger" "hello" {
  name     = "hello"
  function = sless_function.hello.name
  http     = {}
}

output "hello_url" {
  value = sless_trigger.hello.url
}
