data "sless_function" "hello" {
  name = "hello"
}

output "version" {
  value = data.sless_function.hello.version
}
