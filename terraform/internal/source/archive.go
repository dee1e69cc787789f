package source

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// epoch is the first time that a zip can hold; every file of ours has it.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// unpack reads an archive as the platform does.
func unpack(archive []byte) (Tree, error) {
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("it is no zip archive that can be read: %w", err)
	}
	if len(reader.File) > 2*MaxFiles {
		return nil, fmt.Errorf("the archive has more than %d entries; leave out what the function does not need", 2*MaxFiles)
	}
	tree, size := Tree{}, int64(0)
	for _, entry := range reader.File {
		name := entryName(entry)
		if entry.Flags&1 != 0 {
			return nil, fmt.Errorf("%q is encrypted; pack the files without a password", name)
		}
		if strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`) || entry.Mode().IsDir() {
			continue
		}
		if entry.Mode()&fs.ModeType != 0 {
			return nil, fmt.Errorf("%q is no regular file; pack the file that it leads to, or leave it out", name)
		}
		content, err := read(entry, MaxTreeBytes-size)
		if err != nil {
			return nil, fmt.Errorf("%q can't be unpacked: %w", name, err)
		}
		if err := tree.insert(name, content, &size); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// entryName is an entry's name: UTF-8 where it is that, whatever its flag says, else CP437, as the format has it.
func entryName(entry *zip.File) string {
	if utf8.ValidString(entry.Name) {
		return entry.Name
	}
	if name, err := charmap.CodePage437.NewDecoder().String(entry.Name); err == nil {
		return name
	}
	return entry.Name
}

func read(entry *zip.File, most int64) ([]byte, error) {
	reader, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	// One byte more than is allowed, so that more is seen.
	return io.ReadAll(io.LimitReader(reader, most+1))
}

// pack writes a tree as an archive; equal trees make equal archives.
func pack(tree Tree) ([]byte, error) {
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	writer.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.DefaultCompression)
	})
	for _, path := range tree.paths() {
		header := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: epoch}
		header.SetMode(0o644)
		file, err := writer.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(tree[path]); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
