// Package identity derives the tenant of a token, as the platform does. It trusts nothing: whether a token is genuine is
// the platform's to say.
package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MaxTokenBytes is what the platform reads of a token.
	MaxTokenBytes = 8 << 10
	// leeway is how far the clocks of two machines may be apart.
	leeway = 60 * time.Second
)

// Tenant is the first 8 bytes of SHA-256 of a token's sub, as 16 hex digits.
func Tenant(subject string) string {
	digest := sha256.Sum256([]byte(subject))
	return hex.EncodeToString(digest[:8])
}

// Namespace is where the functions of a token's sub are.
func Namespace(subject string) string { return "sless-" + Tenant(subject) }

// IoTNamespace is where the devices of a token's sub are.
func IoTNamespace(subject string) string { return "iot-" + Tenant(subject) }

// Subject reads the sub of a token and looks at what can be seen without a key: three parts, the size, the expiry.
func Subject(token string, now time.Time) (string, error) {
	if len(token) > MaxTokenBytes {
		return "", fmt.Errorf("it has %d bytes; a token has at most %d", len(token), MaxTokenBytes)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("it has %d parts separated by dots; a JWT has three", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", errors.New("its second part is not base64url")
	}
	var claims struct {
		Subject any `json:"sub"`
		Expiry  any `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", errors.New("its second part is not a JSON object")
	}
	subject, ok := claims.Subject.(string)
	if !ok || subject == "" {
		return "", errors.New("it has no `sub` claim that is a text")
	}
	switch expiry := claims.Expiry.(type) {
	case nil:
	case float64:
		if at := time.Unix(int64(expiry), 0); now.After(at.Add(leeway)) {
			return "", fmt.Errorf("it expired at %s", at.UTC().Format(time.RFC3339))
		}
	default:
		return "", errors.New("its `exp` claim is not a number")
	}
	return subject, nil
}
