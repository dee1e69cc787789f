package source

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, root string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func zipped(t *testing.T, at time.Time, mode os.FileMode, names ...string) string {
	t.Helper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for _, name := range names {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		header.SetMode(mode)
		file, err := writer.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(file, "text of %s", filepath.Base(strings.ReplaceAll(name, `\`, "/")))
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "source.zip")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The value is what a shell makes of the same files:
// `printf x > a; mkdir b; printf yy > b/c; sha256sum a b/c | sha256sum`.
func TestTheSourceHashIsWhatSha256sumSays(t *testing.T) {
	const want = "2a652a8b3e9449b3f79bb594fda2860e1a2976b11480a9311cbf4e127d784c27"
	if got := (Tree{"b/c": []byte("yy"), "a": []byte("x")}).Hash(); got != want {
		t.Fatal(got)
	}
	code, err := Folder(write(t, t.TempDir(), map[string]string{"a": "x", "b/c": "yy"}), "")
	if err != nil || code.Hash != want {
		t.Fatal(code, err)
	}
}

func TestTheSameTreeHasOneHashHoweverItIsPacked(t *testing.T) {
	folder := write(t, t.TempDir(), map[string]string{"handler.py": "text of handler.py", "pkg/mod.py": "text of mod.py"})
	want, err := Folder(folder, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Folder(folder, "")
	if err != nil || !bytes.Equal(want.Bytes, again.Bytes) {
		t.Fatal("a folder is packed in one way", err)
	}
	for name, path := range map[string]string{
		"another order":         zipped(t, time.Now(), 0o644, "pkg/mod.py", "handler.py"),
		"another time and mode": zipped(t, epoch, 0o755, "handler.py", "pkg/mod.py"),
		"made on Windows":       zipped(t, epoch, 0o644, `pkg\mod.py`, "handler.py"),
		"a folder around":       zipped(t, epoch, 0o644, "fn/pkg/mod.py", "fn/handler.py"),
		"desktop's litter":      zipped(t, epoch, 0o644, "pkg/mod.py", "handler.py", "__MACOSX/x", "pkg/.DS_Store"),
	} {
		code, err := Archive(path, "")
		if err != nil || code.Hash != want.Hash {
			t.Errorf("%s: %v, %v", name, code, err)
		}
	}
}

func TestAFolderThatTheEntryPointNamesStays(t *testing.T) {
	path := zipped(t, epoch, 0o644, "src/app.py", "src/lib.py")
	stays, err := Archive(path, "src/app.main")
	if err != nil {
		t.Fatal(err)
	}
	stripped, err := Archive(path, "app.main")
	if err != nil || stays.Hash == stripped.Hash {
		t.Fatal(stripped, err)
	}
}

func TestWhatNoFunctionNeedsStaysBehind(t *testing.T) {
	root := write(t, t.TempDir(), map[string]string{
		"handler.js": "x", "node_modules/a/index.js": "x", ".git/HEAD": "x", "lib/__pycache__/a.pyc": "x",
		"docs/page.md": "x", "docs/keep.md": "x", "venv/cfg": "x",
		".env": "x", "sless.toml": "x", "lib/sless.toml": "x", "terraform.tfstate": "x",
		".slessignore": "# notes\ndocs/*\r\n!docs/keep.md\n!venv\n",
	})
	if err := os.Symlink("../handler.js", filepath.Join(root, "lib/linked.js")); err != nil {
		t.Fatal(err)
	}
	tree, err := folder(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tree.paths(), " "); got != "docs/keep.md handler.js lib/linked.js lib/sless.toml venv/cfg" {
		t.Fatal(got)
	}
}

func TestNamesAreThePlatforms(t *testing.T) {
	for name, want := range map[string]string{
		`pkg\mod.py`: "pkg/mod.py", "./a//b/./c": "a/b/c", "..a/b..": "..a/b..", "naïve/файл.py": "naïve/файл.py",
	} {
		if got, err := normal(name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, why := range map[string]string{
		"../../tmp/evil": "leads out", `..\evil`: "leads out", "/etc/passwd": "absolute", `C:\x`: "absolute", "a\x00b": "control",
		strings.Repeat("é", 128): "255 bytes", strings.Repeat("d/", 70) + "x": "64 folders", "./": "no name", "\xff": "UTF-8",
	} {
		if _, err := normal(name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	link := zipped(t, epoch, 0o777|os.ModeSymlink, "handler.py")
	twice := zipped(t, epoch, 0o644, "a.py", "./a.py")
	both := zipped(t, epoch, 0o644, "a", "a/b")
	empty := write(t, t.TempDir(), map[string]string{".DS_Store": "x"})
	text := filepath.Join(write(t, t.TempDir(), map[string]string{"a.txt": "x"}), "a.txt")
	linked := write(t, t.TempDir(), map[string]string{"a.py": "x"})
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "b.py")); err != nil {
		t.Fatal(err)
	}
	for why, read := range map[string]func() (*Code, error){
		"no regular file":     func() (*Code, error) { return Archive(link, "") },
		"there twice":         func() (*Code, error) { return Archive(twice, "") },
		"is a file, and a fo": func() (*Code, error) { return Archive(both, "") },
		"no file in it":       func() (*Code, error) { return Folder(empty, "") },
		"no zip archive":      func() (*Code, error) { return Archive(text, "") },
		"not a folder":        func() (*Code, error) { return Folder(text, "") },
		"it is a folder":      func() (*Code, error) { return Archive(empty, "") },
		"not WebAssembly":     func() (*Code, error) { return Component(text) },
		"no such file":        func() (*Code, error) { return Component(text + "x") },
		"leads out":           func() (*Code, error) { return Folder(linked, "") },
	} {
		if code, err := read(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, %v", why, code, err)
		}
	}
}
