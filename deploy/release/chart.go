package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// chartDir is the chart in the tree.
	chartDir = "deploy/chart"
	// chartName is the chart's own, which its archive is named after.
	chartName = "wasm-ccm"
	chartFile = "Chart.yaml"
)

// packChart writes what helm package would, without the time and the user that
// helm writes down.
func (p packer) packChart() error {
	return p.packDir(chartName, filepath.Join(p.tree, filepath.FromSlash(chartDir)), chartName, func(inside string, content []byte) ([]byte, error) {
		if inside == chartFile {
			return p.chartVersions(content)
		}
		return content, nil
	})
}

// packDir writes the files of a directory as NAME-VERSION.tgz, below another directory. Edit
// may change their content.
func (p packer) packDir(name, dir, below string, edit func(inside string, content []byte) ([]byte, error)) error {
	archive, err := compressed(func(w *tar.Writer) error {
		files := os.DirFS(dir)
		// WalkDir goes in lexical order, and Chart.yaml, which helm wants early, is before the templates.
		return fs.WalkDir(files, ".", func(inside string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, inside)
			if err == nil {
				content, err = edit(inside, content)
			}
			if err != nil {
				return err
			}
			return p.addFile(w, path.Join(below, inside), 0o644, content)
		})
	})
	if err != nil {
		return err
	}
	return p.write(name+"-"+p.number()+".tgz", archive, 0o644)
}

// compressed is a tar by gzip.
func compressed(fill func(*tar.Writer) error) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := errors.Join(fill(w), w.Close(), z.Close())
	return out.Bytes(), err
}

// addFile adds a file without what depends on the machine.
func (p packer) addFile(w *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: p.created, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// number is the version as charts write it.
func (p packer) number() string { return strings.TrimPrefix(p.version, "v") }

// chartVersions writes the release's version for the chart's own and for the image's tag.
func (p packer) chartVersions(content []byte) ([]byte, error) {
	for key, value := range map[string]string{"version": p.number(), "appVersion": p.version, "name": chartName} {
		line := regexp.MustCompile(`(?m)^` + key + `:.*$`)
		if found := line.FindAll(content, -1); len(found) != 1 {
			return nil, fmt.Errorf("%s/%s has %d lines of %s, want 1", chartDir, chartFile, len(found), key)
		}
		content = line.ReplaceAll(content, []byte(key+": "+value))
	}
	return content, nil
}
