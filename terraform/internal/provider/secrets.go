package provider

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Write-only values are in no plan and no state, so whether they changed is told by a salted slow hash in the resource's
// private state. It is slow because secrets may be short, and a state is read by more people than a secret.

const (
	sealKey = "secrets"
	// sealIterations is what OWASP asks of PBKDF2 with SHA-512: some 0.1 s.
	sealIterations = 210_000
	sealSaltBytes  = 16
	sealBytes      = 32
)

// seal is a hash of all values of a function's secrets.
type seal struct {
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash"`
}

// privateState is what the framework gives to read and to write a resource's private state.
type privateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type privateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

func sealed(values map[string]string, salt []byte) ([]byte, error) {
	// Keys are sorted, so equal maps have one text.
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return pbkdf2.Key(sha512.New, string(text), salt, sealIterations, sealBytes)
}

// matchesSeal is whether these are the values that were written last.
func matchesSeal(ctx context.Context, private privateReader, values map[string]string, diags *diag.Diagnostics) bool {
	stored, more := private.GetKey(ctx, sealKey)
	diags.Append(more...)
	var last seal
	if len(stored) == 0 || json.Unmarshal(stored, &last) != nil || len(last.Salt) == 0 {
		return false
	}
	hash, err := sealed(values, last.Salt)
	return err == nil && hmac.Equal(hash, last.Hash)
}

// keepSeal remembers that these are the values that were written.
func keepSeal(ctx context.Context, private privateWriter, values map[string]string, diags *diag.Diagnostics) {
	next := seal{Salt: make([]byte, sealSaltBytes)}
	// It never fails (crypto/rand).
	_, _ = rand.Read(next.Salt)
	hash, err := sealed(values, next.Salt)
	if err == nil {
		next.Hash = hash
		var stored []byte
		if stored, err = json.Marshal(next); err == nil {
			diags.Append(private.SetKey(ctx, sealKey, stored)...)
		}
	}
	if err != nil {
		diags.AddError("The secrets' hash can't be kept", err.Error())
	}
}

// secretName is the platform's secret for a variable of a function: readable, and another one for every pair.
func secretName(function, variable string) string {
	const readable, digits = 33, 10
	slug := strings.ToLower(strings.ReplaceAll(function+"-"+variable, "_", "-"))
	digest := sha256.Sum256([]byte(function + "\x00" + variable))
	return "fn-" + strings.TrimRight(slug[:min(len(slug), readable)], "-") + "-" + hex.EncodeToString(digest[:])[:digits]
}

// plannedSecrets are the names that a plan promises for the configured secrets.
func plannedSecrets(ctx context.Context, function types.String, secrets types.Map, diags *diag.Diagnostics) types.Map {
	if secrets.IsUnknown() || function.IsUnknown() {
		return types.MapUnknown(types.StringType)
	}
	names := map[string]string{}
	for variable := range secrets.Elements() {
		names[variable] = secretName(function.ValueString(), variable)
	}
	return mapOrAbsent(ctx, names, types.MapNull(types.StringType), diags)
}

// knownSecrets are the configured values, unless one of them is not known yet.
func knownSecrets(ctx context.Context, secrets types.Map, diags *diag.Diagnostics) (map[string]string, bool) {
	if secrets.IsUnknown() {
		return nil, false
	}
	for _, value := range secrets.Elements() {
		if value.IsUnknown() {
			return nil, false
		}
	}
	return known(ctx, secrets, diags), true
}
