package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// In the module's root, as it is run.
func inRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

func TestAReleaseIsLaidOutAsRegistriesWantIt(t *testing.T) {
	inRoot(t)
	platform := runtime.GOOS + "_" + runtime.GOARCH
	first, second := t.TempDir(), t.TempDir()
	for _, out := range []string{first, second} {
		if err := release("1.2.3-rc.1", out, []string{platform}); err != nil {
			t.Fatal(err)
		}
	}
	sums := "terraform-provider-sless_1.2.3-rc.1_SHA256SUMS"
	text, err := os.ReadFile(filepath.Join(first, sums))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(filepath.Join(second, sums))
	if err != nil || string(text) != string(again) {
		t.Fatal("the same source makes other bytes", err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		digest, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if len(digest) != 64 {
			t.Fatal(line)
		}
		listed = append(listed, strings.TrimPrefix(file, "terraform-provider-sless_1.2.3-rc.1_"))
	}
	if got := strings.Join(listed, " "); got != platform+".zip manifest.json" {
		t.Fatal(got)
	}
	archive, err := zip.OpenReader(filepath.Join(first, "terraform-provider-sless_1.2.3-rc.1_"+platform+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if got := archive.File[0]; got.Name != programName("1.2.3-rc.1", runtime.GOOS) || got.Mode().Perm() != 0o755 || archive.File[1].Name != "LICENSE" {
		t.Fatal(got.Name, got.Mode())
	}
}

func TestAProgramIsNamedAsTerraformLooksForIt(t *testing.T) {
	if got := programName("1.2.3", "windows"); got != "terraform-provider-sless_v1.2.3.exe" {
		t.Error(got)
	}
	if got := programName("1.2.3", "darwin"); got != "terraform-provider-sless_v1.2.3" {
		t.Error(got)
	}
}

func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	inRoot(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for why, c := range map[string]struct{ version, out string }{
		"no version": {"v1.2", t.TempDir()}, "names no folder": {"1.2.3", ""}, "is not empty": {"1.2.3", full},
	} {
		if err := release(c.version, c.out, platforms); err == nil || !strings.Contains(err.Error(), why) {
			t.Error(why, err)
		}
	}
}
