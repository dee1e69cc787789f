// Package source reads a function's code on the machine where Terraform runs: a component, an archive or a folder. It
// makes of it what is uploaded, and the source hash that the platform will make of that, on every system the same.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The platform's bounds of a function's files.
const (
	MaxFiles        = 20_000
	MaxTreeBytes    = 256 << 20
	maxPathBytes    = 1024
	maxSegmentBytes = 255
	maxDepth        = 64
)

// DefaultEntrypoint is where a handler is if nothing else is said.
const DefaultEntrypoint = "handler.handler"

// errEmpty is a folder or an archive without a file that counts.
var errEmpty = errors.New("there is no file in it; put the handler's file there")

// Tree is a function's files: by their path, with `/` on every system. It has no times, modes or empty folders.
type Tree map[string][]byte

// insert adds a file and keeps the bounds.
func (t Tree) insert(name string, bytes []byte, size *int64) error {
	path, err := normal(name)
	if err != nil {
		return err
	}
	if _, there := t[path]; there {
		return fmt.Errorf("%q is there twice; keep one of them", path)
	}
	if len(t) >= MaxFiles {
		return fmt.Errorf("there are more than %d files; leave out what the function does not need", MaxFiles)
	}
	if *size += int64(len(bytes)); *size > MaxTreeBytes {
		return fmt.Errorf("the files have more than %d bytes; leave out what the function does not need", MaxTreeBytes)
	}
	t[path] = bytes
	return nil
}

// paths are all paths in the order of their bytes.
func (t Tree) paths() []string {
	paths := make([]string, 0, len(t))
	for path := range t {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}

// Hash is the source hash: SHA-256 of what `sha256sum` prints for all files in the order of their paths' bytes.
func (t Tree) Hash() string {
	list := sha256.New()
	for _, path := range t.paths() {
		fmt.Fprintf(list, "%s  %s\n", hash(t[path]), path)
	}
	return hex.EncodeToString(list.Sum(nil))
}

func hash(bytes []byte) string {
	digest := sha256.Sum256(bytes)
	return hex.EncodeToString(digest[:])
}

// cleaned is the tree as the platform takes it: without what desktops add, and without a folder around everything, unless
// the entry point is found with it.
func (t Tree) cleaned(entrypoint string) (Tree, error) {
	clean := Tree{}
	for path, bytes := range t {
		if !strings.HasPrefix(path, "__MACOSX/") && path != ".DS_Store" && !strings.HasSuffix(path, "/.DS_Store") {
			clean[path] = bytes
		}
	}
	if len(clean) == 0 {
		return nil, errEmpty
	}
	for path := range clean {
		for at, letter := range path {
			if _, file := clean[path[:at]]; letter == '/' && file {
				return nil, fmt.Errorf("%q is a file, and a folder for %q; rename one of them", path[:at], path)
			}
		}
	}
	folder, around := clean.commonFolder()
	if !around || clean.hasHandler(entrypoint) {
		return clean, nil
	}
	stripped := Tree{}
	for path, bytes := range clean {
		stripped[strings.TrimPrefix(path, folder+"/")] = bytes
	}
	return stripped, nil
}

// commonFolder is the folder that everything is below, if there is one.
func (t Tree) commonFolder() (string, bool) {
	common := ""
	for path := range t {
		folder, _, below := strings.Cut(path, "/")
		if !below || common != "" && folder != common {
			return "", false
		}
		common = folder
	}
	return common, common != ""
}

// hasHandler is whether there is the file, of whatever extension, that an entry point names.
func (t Tree) hasHandler(entrypoint string) bool {
	if entrypoint == "" {
		entrypoint = DefaultEntrypoint
	}
	file := entrypoint
	if at := strings.LastIndexByte(entrypoint, '.'); at >= 0 {
		file = entrypoint[:at]
	}
	for path := range t {
		if at := strings.LastIndexByte(path, '.'); at >= 0 && path[:at] == file && !strings.Contains(path[at:], "/") {
			return true
		}
	}
	return false
}

// normal is a file's path as the platform has it: `\` is `/`, `.` and empty segments go.
func normal(name string) (string, error) {
	refuse := func(why string) (string, error) { return "", fmt.Errorf("%q %s", name, why) }
	if !utf8.ValidString(name) {
		return refuse("is not UTF-8; rename the file")
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return refuse("has a control character in its name; rename the file")
	}
	path := strings.ReplaceAll(name, `\`, "/")
	drive := len(path) > 1 && path[1] == ':' && unicode.IsLetter(rune(path[0])) && path[0] < 0x80
	if strings.HasPrefix(path, "/") || drive {
		return refuse("is an absolute path; pack the files relative to the function's folder")
	}
	segments := slices.DeleteFunc(strings.Split(path, "/"), func(segment string) bool { return segment == "" || segment == "." })
	for _, segment := range segments {
		if segment == ".." {
			return refuse("leads out of its folder; pack the files relative to the function's folder")
		}
		if len(segment) > maxSegmentBytes {
			return refuse(fmt.Sprintf("has a name of more than %d bytes; make it shorter", maxSegmentBytes))
		}
	}
	path = strings.Join(segments, "/")
	switch {
	case path == "":
		return refuse("has no name")
	case len(path) > maxPathBytes:
		return refuse(fmt.Sprintf("has a path of more than %d bytes; make it shorter", maxPathBytes))
	case strings.Count(path, "/") > maxDepth:
		return refuse(fmt.Sprintf("is in more than %d folders; make it flatter", maxDepth))
	}
	return path, nil
}
