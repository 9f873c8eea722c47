package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func stampOf(out string) string { return out + ".stamp" }

func upToDate(out, stamp string) bool {
	if _, err := os.Stat(out); err != nil {
		return false
	}
	text, err := os.ReadFile(stampOf(out))
	return err == nil && string(text) == stamp
}

// stamp names all inputs of the module: compiling takes up to half a minute,
// and is skipped if they are unchanged.
func (o Options) stamp(ctx context.Context, c compiler, manifest []byte) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s %s %s %t\n%s\n", c.name, c.identity, o.opt(), o.gc(), o.Tags, o.Debug, manifest)
	out, err := o.output(ctx, o.Dir, wasip1(), "go", "list", "-deps", "-tags", o.Tags, "-json=ImportPath,Dir,Standard,EmbedFiles,Module", ".")
	if err != nil {
		return "", err
	}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		} else if err != nil {
			return "", fmt.Errorf("go list: %w", err)
		}
		if err := p.sum(h); err != nil {
			return "", err
		}
	}
}

// goPackage is a package in the output of go list.
type goPackage struct {
	ImportPath, Dir string
	Standard        bool
	EmbedFiles      []string
	Module          *goModule
}

type goModule struct {
	Path, Version string
	Replace       *goModule
}

// sum covers the sources; for released modules, which never change, the
// version. TinyGo's tags choose other files than Go's, so all files count.
func (p goPackage) sum(h io.Writer) error {
	m := p.Module
	if m != nil && m.Replace != nil {
		m = m.Replace
	}
	switch {
	case p.Standard:
		return nil
	case m != nil && m.Version != "":
		_, err := fmt.Fprintln(h, p.ImportPath, m.Path, m.Version)
		return err
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		source := slices.Contains([]string{".go", ".s", ".c", ".h"}, filepath.Ext(name)) && !strings.HasSuffix(name, "_test.go")
		if !source || entry.IsDir() {
			continue
		}
		p.EmbedFiles = append(p.EmbedFiles, name)
	}
	return sumFiles(h, p.Dir, p.EmbedFiles)
}

func sumFiles(h io.Writer, dir string, names []string) error {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(h, "%s %d %x\n", filepath.Join(dir, name), len(content), sha256.Sum256(content)); err != nil {
			return err
		}
	}
	return nil
}
