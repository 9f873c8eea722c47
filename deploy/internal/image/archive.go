package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// epoch is the time of every file, so that equal content makes equal bytes.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// Tag makes a version fit a tag, which may not hold a +.
func Tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// WriteImage writes one image as a tar of an OCI layout and returns the tar's
// size in bytes. The file appears when it is complete.
func WriteImage(out string, image v1.Image, name, tag string) (int64, error) {
	return writeArchive(out, func(l layout.Path) error {
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		return l.AppendImage(image, layout.WithPlatform(v1.Platform{OS: config.OS, Architecture: config.Architecture}), names(name, tag))
	})
}

// WriteIndex is WriteImage for an index with all that it holds.
func WriteIndex(out string, index v1.ImageIndex, name, tag string) (int64, error) {
	return writeArchive(out, func(l layout.Path) error { return l.AppendIndex(index, names(name, tag)) })
}

func names(name, tag string) layout.Option {
	return layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          name + ":" + tag, // what ctr calls it
	})
}

func writeArchive(out string, fill func(layout.Path) error) (int64, error) {
	dir, err := os.MkdirTemp("", "oci-layout-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return 0, err
	}
	if err := fill(l); err != nil {
		return 0, err
	}
	size, err := writeTar(dir, out)
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", out, err)
	}
	return size, nil
}

func writeTar(dir, out string) (int64, error) {
	temporary, err := os.CreateTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	w, files := tar.NewWriter(temporary), os.DirFS(dir)
	// WalkDir goes in lexical order: the bytes depend on the content only.
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return addFile(w, &tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, content)
	})
	if err := errors.Join(err, w.Close(), temporary.Chmod(0o644)); err != nil {
		return 0, err
	}
	info, err := temporary.Stat()
	if err := errors.Join(err, temporary.Close()); err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(temporary.Name(), out)
}

// addFile adds a file to a tar, without what depends on the machine.
func addFile(w *tar.Writer, h *tar.Header, content []byte) error {
	h.Size, h.ModTime, h.Format = int64(len(content)), epoch(), tar.FormatUSTAR
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
