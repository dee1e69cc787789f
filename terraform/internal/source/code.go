package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Code is what an upload sends.
type Code struct {
	// MediaType says what it is.
	MediaType string
	// Bytes are sent as they are.
	Bytes []byte
	// Hash is the source hash that the platform will make of it.
	Hash string
}

// maxUploadBytes bounds what is read of a file; the platform's own limit is lower.
const maxUploadBytes = 512 << 20

// Component reads a WebAssembly component.
func Component(path string) (*Code, error) {
	bytes, err := file(path)
	if err != nil {
		return nil, err
	}
	if len(bytes) < 4 || string(bytes[:4]) != "\x00asm" {
		return nil, errors.New("it is not WebAssembly (it does not begin with `\\0asm`); build a component, or choose a runtime that takes source")
	}
	return &Code{MediaType: "application/wasm", Bytes: bytes, Hash: hash(bytes)}, nil
}

// Archive reads a zip of source files. It is sent as it is: the platform says what it makes of it.
func Archive(path, entrypoint string) (*Code, error) {
	bytes, err := file(path)
	if err != nil {
		return nil, err
	}
	tree, err := unpack(bytes)
	if err != nil {
		return nil, err
	}
	clean, err := tree.cleaned(entrypoint)
	if err != nil {
		return nil, err
	}
	return &Code{MediaType: "application/zip", Bytes: bytes, Hash: clean.Hash()}, nil
}

// Folder packs a folder of source files.
func Folder(path, entrypoint string) (*Code, error) {
	tree, err := folder(path)
	if err != nil {
		return nil, err
	}
	clean, err := tree.cleaned(entrypoint)
	if err != nil {
		return nil, err
	}
	bytes, err := pack(clean)
	if err != nil {
		return nil, err
	}
	// What was stripped once could be stripped again: the platform sees the packed files, so that is what is hashed.
	seen, err := clean.cleaned(entrypoint)
	if err != nil {
		return nil, err
	}
	return &Code{MediaType: "application/zip", Bytes: bytes, Hash: seen.Hash()}, nil
}

func file(path string) ([]byte, error) {
	open, err := os.Open(path)
	if err != nil {
		return nil, plain(err)
	}
	defer open.Close()
	if info, err := open.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("it is a folder; name a file, or use `source_dir`")
	}
	bytes, err := io.ReadAll(io.LimitReader(open, maxUploadBytes+1))
	if err != nil {
		return nil, plain(err)
	}
	if len(bytes) > maxUploadBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxUploadBytes)
	}
	return bytes, nil
}

// plain is an error of the file system without the path, which the diagnostic has already.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// linked is the file of the same folder that a link leads to: archives have no links.
func linked(root, link string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return "", err
	}
	inside, err := filepath.Rel(root, target)
	if err != nil || !filepath.IsLocal(inside) {
		return "", errors.New("it leads out of the folder")
	}
	info, err := os.Stat(target)
	if err != nil || !info.Mode().IsRegular() {
		return "", errors.New("it leads to no file")
	}
	return target, nil
}

// folder reads all files below a folder but those that no function needs.
func folder(root string) (Tree, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, plain(err)
	}
	if !info.IsDir() {
		return nil, errors.New("it is not a folder; use `source_zip` for an archive")
	}
	ignored, err := ignores(root)
	if err != nil {
		return nil, err
	}
	tree, size := Tree{}, int64(0)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		switch {
		case name == ".":
			return nil
		case ignored(name, entry.IsDir()) && entry.IsDir():
			return fs.SkipDir
		case ignored(name, entry.IsDir()) || entry.IsDir():
			return nil
		case entry.Type()&fs.ModeSymlink != 0:
			if path, err = linked(root, path); err != nil {
				return fmt.Errorf("%q is a link that leads out of the folder, to a folder, or nowhere; put the file itself there, or name the link in %s", name, IgnoreFile)
			}
		case !entry.Type().IsRegular():
			return fmt.Errorf("%q is no regular file; name it in %s", name, IgnoreFile)
		}
		bytes, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return tree.insert(name, bytes, &size)
	})
	return tree, err
}
