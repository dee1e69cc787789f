package identity

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The value that the platform's own documentation gives for this subject.
func TestTheTenantIsThePlatformsOwn(t *testing.T) {
	if got := Namespace("0199e325-1cdf-7cda-9319-e5302a85e291"); got != "sless-cdd874dfa31ba6ca" {
		t.Fatal(got)
	}
	if got := IoTNamespace("0199e325-1cdf-7cda-9319-e5302a85e291"); got != "iot-cdd874dfa31ba6ca" {
		t.Fatal(got)
	}
}

func token(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func TestTokens(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ name, token, subject, failure string }{
		{"good", token(`{"sub":"a","exp":1800000001}`), "a", ""},
		{"no expiry", token(`{"sub":"a"}`), "a", ""},
		{"expired within the leeway", token(fmt.Sprintf(`{"sub":"a","exp":%d}`, now.Unix()-59)), "a", ""},
		{"expired", token(fmt.Sprintf(`{"sub":"a","exp":%d}`, now.Unix()-61)), "", "expired at 2027-"},
		{"expiry is a text", token(`{"sub":"a","exp":"1800000001"}`), "", "not a number"},
		{"no sub", token(`{}`), "", "no `sub`"},
		{"sub is a number", token(`{"sub":1}`), "", "no `sub`"},
		{"empty sub", token(`{"sub":""}`), "", "no `sub`"},
		{"two parts", "a.b", "", "2 parts"},
		{"four parts", "a.b.c.d", "", "4 parts"},
		{"not base64", "a.*.c", "", "base64url"},
		{"not JSON", "a.YQ.c", "", "JSON object"},
		{"huge", strings.Repeat("a", 1<<20), "", "at most 8192"},
	} {
		subject, err := Subject(c.token, now)
		if c.failure == "" && (err != nil || subject != c.subject) {
			t.Errorf("%s: %q, %v", c.name, subject, err)
		}
		if c.failure != "" && (err == nil || !strings.Contains(err.Error(), c.failure)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
