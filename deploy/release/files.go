package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/attestation"
	"github.com/wasm-ccm/wasm-ccm/deploy/internal/gomodules"
)

// checksums is the file that sha256sum -c reads.
const checksums = "SHA256SUMS"

func modules() []string {
	var files []string
	for _, guest := range guests() {
		files = append(files, guest+".wasm")
	}
	return files
}

// sums are the files of a directory with their digests, by name.
func sums(dir string) ([]attestation.Subject, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []attestation.Subject
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, attestation.Subject{Name: entry.Name(), SHA256: sum})
	}
	return all, nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// report says what there is, and what is missing.
func report(w io.Writer, out string, o options, digest string, modules versioned, sign *signer) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		sum, err := sumOf(filepath.Join(out, entry.Name()))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s %10d  %s\n", sum, info.Size(), entry.Name()); err != nil {
			return err
		}
	}
	signed := "signed"
	if sign == nil {
		signed = "NOT SIGNED: no RELEASE_KEY was given"
	}
	_, err = fmt.Fprintf(w, "release %s in %s, %s\nimage   %s@%s\ntags    %s of commit %s, to be pushed\n",
		o.version, out, signed, o.image, digest, strings.Join(gomodules.Tags(modules.version), " "), modules.commit)
	return err
}
