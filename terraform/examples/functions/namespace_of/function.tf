output "namespace" {
  value = provider::sless::namespace_of("0199e325-1cdf-7cda-9319-e5302a85e291") # sless-cdd874dfa31ba6ca
}
