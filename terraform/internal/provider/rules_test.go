package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// The platform's own tests have the same texts, and the same answers.
func TestNamesAreThosePlatformTakes(t *testing.T) {
	for _, good := range []string{"controller", "a", "a1", "a-b", "kubernetes2", "sless", strings.Repeat("a", 48)} {
		if why := notName(good); why != "" {
			t.Error(why)
		}
	}
	for _, bad := range []string{"", "kubernetes", "sless-x", "A_b", "1a", "-a", "a-", "a b", "a.b", "ä", strings.Repeat("a", 49)} {
		if why := notName(bad); !strings.Contains(why, "at most 48 characters") {
			t.Errorf("%q: %s", bad, why)
		}
	}
}

func TestEgressRulesAreThosePlatformTakes(t *testing.T) {
	for _, good := range []string{"Example.ORG.", "example.org:443", "10.1.2.3", "10.0.0.0/8:80", "10.0.0.0/8", "::1", "[::1]:80", "*", "*:443", "_srv.example.org"} {
		if why := notEgress(good); why != "" {
			t.Error(why)
		}
	}
	for _, bad := range []string{"", "a..b", "x:0", "x:99999", "http://x", "a b", "127.1", "2130706433", strings.Repeat("a.", 130) + "a", strings.Repeat("a", 64)} {
		if notEgress(bad) == "" {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestEntrypointsAreThosePlatformTakes(t *testing.T) {
	for _, good := range []string{"handler.handler", "src/app.main", "a.b.c", "a-b/c_d.$x"} {
		if why := notEntrypoint(good); why != "" {
			t.Error(why)
		}
	}
	for _, bad := range []string{"handler", "", ".x", "x.", "../a.b", "/a.b", "a//b.c", "a.1", "a b.c", "a/.b.c", "a\x00.b", strings.Repeat("a", 512) + ".b"} {
		if notEntrypoint(bad) == "" {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestVariablesAreThosePlatformTakes(t *testing.T) {
	for _, good := range []string{"A", "_a1", "PATH", "SLESS"} {
		if why := notVariable(good); why != "" {
			t.Error(why)
		}
	}
	for _, bad := range []string{"", "1A", "A-B", "A B", "SLESS_X", "Ä", strings.Repeat("a", 257)} {
		if notVariable(bad) == "" {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAddressesOfServices(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:9090", "https://sless.example.com", "https://x/path/"} {
		if why := notHTTP(good); why != "" {
			t.Error(why)
		}
	}
	for _, bad := range []string{"127.0.0.1:9090", "sless.example.com", "ftp://x", "http://", "https://user:pass@x", "https://x?a=b", "https://x#a", "http://[", "://"} {
		if why := notHTTP(bad); why == "" || strings.Contains(why, "pass") {
			t.Errorf("%q: %q", bad, why)
		}
	}
}

func TestSecretsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, function := range []string{"f", "f-a", "sless", strings.Repeat("a", 48)} {
		for _, variable := range []string{"A", "a", "_", "A_B", "A__B", "a_b", "B", strings.Repeat("V", 256)} {
			name := secretName(function, variable)
			if why := notName(name); why != "" {
				t.Error(why)
			}
			if other, twice := seen[name]; twice {
				t.Errorf("%s %s and %s are both %s", function, variable, other, name)
			}
			seen[name] = function + " " + variable
		}
	}
	if got := secretName("report", "API_KEY"); !strings.HasPrefix(got, "fn-report-api-key-") {
		t.Error(got)
	}
}

func TestAPointerOfTheAPIIsAnAttribute(t *testing.T) {
	plan := &functionModel{ManagedSecrets: types.MapValueMust(types.StringType, map[string]attr.Value{"KEY": types.StringValue("fn-f-key")})}
	for pointer, want := range map[string]string{
		"/name": "name", "/spec/memoryMb": "memory_mb", "/spec/limits/cpuMs": "limits.cpu_ms", "/spec/egress/allow/1": "egress.allow[1]",
		"/spec/env/A~1B": `env["A/B"]`, "/spec/env": "env", "/spec/secretRefs/OTHER": `secret_refs["OTHER"]`, "/spec/secretRefs/KEY": "secrets",
		"/spec/sha256": "", "/value": "", "": "", "/spec": "",
	} {
		at, found := attribute(pointer, plan)
		if found != (want != "") || found && at.String() != want {
			t.Errorf("%s: %s", pointer, at)
		}
	}
}

func TestTheEndOfALogIsShown(t *testing.T) {
	log := strings.Repeat("line\n", 100) + "the error\n"
	if got := tail(log); !strings.HasSuffix(got, "\nthe error") || strings.Count(got, "\n") != logTailLines-1 {
		t.Error(got)
	}
	if got := tail(strings.Repeat("é", 10_000)); len(got) > logTailBytes+3 || !strings.HasSuffix(got, "é") {
		t.Error(len(got))
	}
}

func TestASealTellsAChangeAndNothingElse(t *testing.T) {
	one := map[string]string{"A": "1", "B": "2"}
	salt := []byte("0123456789abcdef")
	hash, err := sealed(one, salt)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := sealed(map[string]string{"B": "2", "A": "1"}, salt)
	other, _ := sealed(map[string]string{"A": "1", "B": "3"}, salt)
	salted, _ := sealed(one, []byte("fedcba9876543210"))
	if string(hash) != string(again) || string(hash) == string(other) || string(hash) == string(salted) {
		t.Error("equal values have one hash, others another")
	}
}
