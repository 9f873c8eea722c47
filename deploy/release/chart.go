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
	dir := filepath.Join(p.tree, filepath.FromSlash(chartDir))
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	// WalkDir goes in lexical order, and Chart.yaml, which helm wants early, is before the templates.
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return p.addToChart(w, dir, file)
	})
	if err := errors.Join(err, w.Close(), compressed.Close()); err != nil {
		return err
	}
	return p.write(chartName+"-"+p.number()+".tgz", out.Bytes(), 0o644)
}

func (p packer) addToChart(w *tar.Writer, dir, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(dir, file)
	if err != nil {
		return err
	}
	if inside == chartFile {
		if content, err = p.chartVersions(content); err != nil {
			return err
		}
	}
	return p.addFile(w, path.Join(chartName, filepath.ToSlash(inside)), 0o644, content)
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
