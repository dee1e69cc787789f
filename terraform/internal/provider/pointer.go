package provider

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/path"
)

// attribute is where the configuration has what a JSON Pointer of the API names.
func attribute(pointer string, plan *functionModel) (path.Path, bool) {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if parts[0] == "name" {
		return path.Root("name"), true
	}
	if parts[0] != "spec" || len(parts) < 2 {
		return path.Empty(), false
	}
	switch parts[1] {
	case "env", "secretRefs":
		at := path.Root(snake(parts[1]))
		if len(parts) == 2 {
			return at, true
		}
		variable := strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[2])
		if _, managed := plan.ManagedSecrets.Elements()[variable]; managed && parts[1] == "secretRefs" {
			return path.Root("secrets"), true
		}
		return at.AtMapKey(variable), true
	case "s3Key", "sha256":
		return path.Empty(), false
	}
	at := path.Root(snake(parts[1]))
	for _, part := range parts[2:] {
		if index, err := strconv.Atoi(part); err == nil {
			at = at.AtListIndex(index)
		} else {
			at = at.AtName(snake(part))
		}
	}
	return at, true
}

// snake is a field of the API as an attribute is called.
func snake(camel string) string {
	var out strings.Builder
	for _, letter := range camel {
		if unicode.IsUpper(letter) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(letter))
	}
	return out.String()
}
