package main

//go:generate go tool -modfile=tools/go.mod oapi-codegen -config internal/api/oapi-codegen.yaml ../docs/reference/openapi.json
//go:generate terraform fmt -recursive examples
//go:generate go run ./internal/docgen
