// Release builds the provider for all systems and lays it out as registries and mirrors want it: an archive for each
// system, their SHA-256 sums and the manifest. The same source makes the same bytes.
package main

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const name = "terraform-provider-sless"

// platforms are what the provider is released for.
var platforms = []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64", "windows_arm64"}

// semantic is what Terraform takes for a version.
var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// epoch is the time of every file in an archive.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func main() {
	version := flag.String("version", "", "the release, such as 1.2.3")
	out := flag.String("out", "", "an empty or new folder")
	only := flag.String("platforms", strings.Join(platforms, ","), "for which systems")
	flag.Parse()
	if err := release(*version, *out, strings.Split(*only, ",")); err != nil {
		log.Fatal(err)
	}
}

func release(version, out string, wanted []string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("-version %q is no version; write it as 1.2.3", version)
	}
	if out == "" {
		return errors.New("-out names no folder")
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	manifest, err := os.ReadFile("terraform-registry-manifest.json")
	if err != nil {
		return err
	}
	manifestName := fmt.Sprintf("%s_%s_manifest.json", name, version)
	if err := os.WriteFile(filepath.Join(out, manifestName), manifest, 0o644); err != nil {
		return err
	}
	var sums strings.Builder
	for _, platform := range wanted {
		archive := fmt.Sprintf("%s_%s_%s.zip", name, version, platform)
		if err := pack(filepath.Join(out, archive), version, platform); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		if err := sum(&sums, out, archive); err != nil {
			return err
		}
	}
	if err := sum(&sums, out, manifestName); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("%s_%s_SHA256SUMS", name, version)), []byte(sums.String()), 0o644)
}

func sum(sums *strings.Builder, folder, file string) error {
	bytes, err := os.ReadFile(filepath.Join(folder, file))
	if err == nil {
		fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(bytes), file)
	}
	return err
}

// pack builds the provider for a platform and archives it with the licence.
func pack(archive, version, platform string) error {
	system, machine, ok := strings.Cut(platform, "_")
	if !ok {
		return errors.New("a platform is written as linux_amd64")
	}
	folder, err := os.MkdirTemp("", "sless-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := programName(version, system)
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid= -X main.version="+version, "-o", filepath.Join(folder, program), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	writer := zip.NewWriter(file)
	if err := errors.Join(add(writer, filepath.Join(folder, program), program, 0o755), add(writer, "../LICENSE", "LICENSE", 0o644), writer.Close()); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

// programName is what Terraform looks for in an archive.
func programName(version, system string) string {
	if system == "windows" {
		return name + "_v" + version + ".exe"
	}
	return name + "_v" + version
}

func add(archive *zip.Writer, path, name string, mode fs.FileMode) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: epoch}
	header.SetMode(mode)
	to, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return err
}
