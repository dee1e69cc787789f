package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// IgnoreFile names files of a folder that are not uploaded, as .gitignore does.
const IgnoreFile = ".slessignore"

// DefaultIgnores are left out of every folder, unless the ignore file says `!name`: what `sless deploy` leaves out (version
// control, packages that the build installs, caches, editors, secrets), and Terraform's own files, whose state may hold
// secrets too.
var DefaultIgnores = []string{
	".git/", ".hg/", ".svn/", ".gitignore", ".gitattributes", IgnoreFile, ".sless/", "/sless.toml", "node_modules/",
	"__pycache__/", "*.pyc", ".venv/", "venv/", ".tox/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".idea/",
	".vscode/", ".DS_Store", ".env", ".env.*",
	".terraform/", ".terraform.lock.hcl", "*.tfstate", "*.tfstate.*", "*.tfvars",
}

// maxIgnoreBytes bounds the ignore file.
const maxIgnoreBytes = 256 << 10

// ignores says which paths of a folder stay behind.
func ignores(root string) (func(name string, folder bool) bool, error) {
	lines := DefaultIgnores
	text, err := os.ReadFile(filepath.Join(root, IgnoreFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("%s: %w", IgnoreFile, plain(err))
	case len(text) > maxIgnoreBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", IgnoreFile, maxIgnoreBytes)
	default:
		lines = append(lines[:len(lines):len(lines)], strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")...)
	}
	var patterns []gitignore.Pattern
	for _, line := range lines {
		if line = strings.TrimRight(line, " \t"); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, gitignore.ParsePattern(line, nil))
		}
	}
	matcher := gitignore.NewMatcher(patterns)
	return func(name string, folder bool) bool { return matcher.Match(strings.Split(name, "/"), folder) }, nil
}
