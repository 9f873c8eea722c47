package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	home = "https://github.com/wasm-ccm/wasm-ccm"
	// krewName is the plugin's: kubectl ccm. Krew wants the manifest's file to bear it.
	krewName = "ccm"
	licence  = "LICENSE"
)

// krewPlugin is the manifest of a plugin for krew, by which kubectl's users install it.
type krewPlugin struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   krewMeta `json:"metadata"`
	Spec       krewSpec `json:"spec"`
}

type krewMeta struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// packKrew writes the archives of ccmctl that krew installs, and the manifest that names them.
func (p packer) packKrew() error {
	plugin := krewPlugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMeta{krewName}, Spec: krewSpec{
		Version: p.version, Homepage: home, ShortDescription: "Ask a wasm-ccm cloud-controller-manager how it is",
		Description: "Shows the manager and its providers, says why a Service, Node or route is\nas it is, looks for mistakes of an installation, and signs, checks and\nbuilds the modules of providers.\n",
	}}
	for _, t := range targets() {
		if t.program != ccmctl {
			continue
		}
		archive, err := p.archive(t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.file(), err)
		}
		name, sum := t.file()+".tar.gz", sha256.Sum256(archive)
		if err := p.write(name, archive, 0o644); err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": t.os, "arch": t.arch}}, URI: home + "/releases/download/" + p.version + "/" + name, SHA256: hex.EncodeToString(sum[:]), Bin: ccmctl,
		})
	}
	manifest, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return p.write(krewName+".yaml", manifest, 0o644)
}

// archive has a program under its own name, and the licence, as krew demands.
func (p packer) archive(t target) ([]byte, error) {
	program, err := os.ReadFile(filepath.Join(p.parts, t.file()))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(p.tree, licence))
	if err != nil {
		return nil, err
	}
	return compressed(func(w *tar.Writer) error {
		return errors.Join(p.addFile(w, licence, 0o644, text), p.addFile(w, t.program, 0o755, program))
	})
}
