package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Archive returns an index as an archive of an OCI layout, which container runtimes import
// under the name of the reference.
func Archive(ref Reference, index v1.ImageIndex) ([]byte, error) {
	dir, err := os.MkdirTemp("", "oci-layout-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what stays there is only a copy
	names := map[string]string{"org.opencontainers.image.ref.name": ref.Identifier(), "io.containerd.image.name": ref.Name()}
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendIndex(index, layout.WithAnnotations(names))
	}
	if err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	var out bytes.Buffer
	w, files := tar.NewWriter(&out), os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return writeFile(w, name, data)
	})
	return out.Bytes(), errors.Join(err, w.Close())
}

// writeFile writes a file to a tar, without what depends on the machine.
func writeFile(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: epoch(), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
