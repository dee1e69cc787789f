package provider

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// The platform's rules for values, so that a plan says what is wrong before anything is done.

const (
	maxNameBytes       = 48
	maxEnvVars         = 256
	maxEnvBytes        = 64 << 10
	maxSecretBytes     = 64 << 10
	maxVariableBytes   = 256
	maxEntrypointBytes = 512
	maxEgressRules     = 64
	maxBodyBytes       = 100 << 20
	maxLogBytes        = 1 << 20
)

var (
	namePattern     = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// Folders of letters, digits and `_-.` that do not begin with a dot or a hyphen; then the export, an identifier.
	entrypointPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.[A-Za-z_$][A-Za-z0-9_$]*$`)
	labelPattern      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	digitsPattern     = regexp.MustCompile(`^[0-9]+$`)
)

const nameRule = "a name starts with a lower-case letter, goes on with lower-case letters, digits or hyphens, does not end in a hyphen, " +
	"has at most 48 characters, and is neither `kubernetes` nor begins with `sless-`"

// notName is what is wrong with a name; empty where it is one.
func notName(name string) string {
	if len(name) <= maxNameBytes && namePattern.MatchString(name) && name != "kubernetes" && !strings.HasPrefix(name, "sless-") {
		return ""
	}
	return fmt.Sprintf("%q is not a valid name: %s.", name, nameRule)
}

// notVariable is what is wrong with the name of an environment variable.
func notVariable(name string) string {
	if len(name) <= maxVariableBytes && variablePattern.MatchString(name) && !strings.HasPrefix(name, "SLESS_") {
		return ""
	}
	return fmt.Sprintf("%q can't be a variable's name: it has letters, digits and underscores, does not start with a digit, and does not start with SLESS_.", name)
}

// notEntrypoint is what is wrong with an entry point.
func notEntrypoint(text string) string {
	if len(text) <= maxEntrypointBytes && entrypointPattern.MatchString(text) {
		return ""
	}
	return fmt.Sprintf("%q is no entry point: it is `file.export` below the source's folder, such as `handler.handler` or `src/app.main`.", text)
}

// notEgress is what is wrong with an entry of an egress list.
func notEgress(rule string) string {
	wrong := fmt.Sprintf("%q is none of host, host:port, address, network/prefix, [address6]:port, *.", rule)
	if isNetwork(rule) {
		return ""
	}
	host := rule
	if at := strings.LastIndexByte(rule, ':'); at >= 0 {
		port, err := strconv.ParseUint(rule[at+1:], 10, 16)
		if err != nil || port == 0 {
			return wrong
		}
		host = rule[:at]
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "*" || isNetwork(bare) {
		return ""
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if !labelPattern.MatchString(label) {
			return wrong
		}
	}
	if len(host) > 253 || digitsPattern.MatchString(labels[len(labels)-1]) {
		return wrong
	}
	return ""
}

func isNetwork(text string) bool {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Zone() == ""
	}
	_, err := netip.ParsePrefix(text)
	return err == nil
}

// notHTTP is what is wrong with an address of a service.
func notHTTP(text string) string {
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Sprintf("%q is no URL; it looks like https://sless.example.com.", text)
	case address.Scheme != "http" && address.Scheme != "https" || address.Host == "":
		return fmt.Sprintf("%q does not begin with http:// or https:// and a host; it looks like https://sless.example.com.", text)
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return fmt.Sprintf("%q has a user, a query or a fragment; leave them out.", address.Redacted())
	}
	return ""
}

// text checks a string by one of the functions above.
type text struct {
	rule  string
	wrong func(string) string
}

func (v text) Description(context.Context) string         { return v.rule }
func (v text) MarkdownDescription(context.Context) string { return v.rule }

func (v text) ValidateString(_ context.Context, request validator.StringRequest, response *validator.StringResponse) {
	if request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() {
		return
	}
	if why := v.wrong(request.ConfigValue.ValueString()); why != "" {
		response.Diagnostics.AddAttributeError(request.Path, "The value is not allowed", fmt.Sprintf("Attribute %s: %s", request.Path, why))
	}
}

var (
	aName     = text{nameRule, notName}
	aVariable = text{"a variable's name", notVariable}
	anEntry   = text{"`file.export` of the handler", notEntrypoint}
	anEgress  = text{"host, host:port, address, network/prefix, [address6]:port or *", notEgress}
	aValue    = text{"a value without NUL", func(value string) string {
		if strings.ContainsRune(value, 0) {
			return "A value can't hold a NUL."
		}
		return ""
	}}
	aSecret = text{"a value of at most 65,536 bytes without NUL", func(value string) string {
		if len(value) > maxSecretBytes {
			return fmt.Sprintf("A secret has at most %d bytes; this one has %d.", maxSecretBytes, len(value))
		}
		if strings.ContainsRune(value, 0) {
			return "A value can't hold a NUL."
		}
		return ""
	}}
)

type httpURL struct{}

func (httpURL) Description(context.Context) string         { return "a URL of http or https" }
func (httpURL) MarkdownDescription(context.Context) string { return "a URL of http or https" }

func (httpURL) ValidateString(_ context.Context, request validator.StringRequest, response *validator.StringResponse) {
	// An empty one is as good as none: the environment is asked.
	if value := request.ConfigValue.ValueString(); value != "" {
		if why := notHTTP(value); why != "" {
			response.Diagnostics.AddAttributeError(request.Path, "The address can't be used", why)
		}
	}
}
