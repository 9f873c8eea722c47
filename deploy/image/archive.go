package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// tag makes a version fit a tag, which may not hold a +.
func tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// writeArchive writes the image as a tar of an OCI layout and returns its size
// in bytes. The file appears when it is complete.
func writeArchive(image v1.Image, o options) (int64, error) {
	dir, err := os.MkdirTemp("", "oci-layout-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return 0, err
	}
	if err := l.AppendImage(image, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: o.arch}), layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag(o.version),
		"io.containerd.image.name":          o.name + ":" + tag(o.version), // what ctr calls it
	})); err != nil {
		return 0, err
	}
	return writeTar(dir, o.out)
}

func writeTar(dir, out string) (int64, error) {
	temporary, err := os.CreateTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	w := tar.NewWriter(temporary)
	// WalkDir goes in lexical order: the bytes depend on the content only.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return addFile(w, dir, path)
	})
	if err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	if err := temporary.Chmod(0o644); err != nil {
		return 0, err
	}
	info, err := temporary.Stat()
	if err != nil {
		return 0, err
	}
	if err := temporary.Close(); err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(temporary.Name(), out)
}

func addFile(w *tar.Writer, dir, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size(), ModTime: epoch(), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
