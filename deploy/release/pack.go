package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/attestation"
	"github.com/wasm-ccm/wasm-ccm/deploy/internal/image"
	"github.com/wasm-ccm/wasm-ccm/deploy/internal/sbom"
)

// certificatesModule is where the image's CAs are from.
const certificatesModule = "golang.org/x/crypto/x509roots/fallback"

// packer makes the files of a release of what was built.
type packer struct {
	version, image, commit string
	created                time.Time
	debian                 []attestation.Package
	// tree is the source, parts what was built of it, out the release.
	tree, parts, out string
	sign             *signer
}

// pack returns the digest of the image's index.
func (p packer) pack() (string, error) {
	provenance, err := attestation.Provenance(attestation.Build{Version: p.version, Commit: p.commit, Go: runtime.Version(), Image: p.image, Packages: p.debian})
	if err != nil {
		return "", err
	}
	digest, err := p.packImage(provenance)
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	for _, t := range targets() {
		if t.program != ccmctl {
			continue
		}
		if err := p.packBinary(t.file()); err != nil {
			return "", err
		}
	}
	for _, guest := range guests() {
		if err := p.packGuest(guest); err != nil {
			return "", err
		}
	}
	if err := p.packChart(); err != nil {
		return "", fmt.Errorf("chart: %w", err)
	}
	if err := errors.Join(p.packKrew(), p.packCompletions()); err != nil {
		return "", fmt.Errorf("what is made of ccmctl: %w", err)
	}
	if err := p.packGoModules(); err != nil {
		return "", fmt.Errorf("modules of Go: %w", err)
	}
	return digest, p.vouch(digest, provenance)
}

func (p packer) sbomOptions() sbom.Options {
	return sbom.Options{Version: p.version, Created: p.created}
}

// packImage writes the index with what is said of its images.
func (p packer) packImage(provenance []byte) (string, error) {
	o := image.Options{Version: p.version, Revision: p.commit, Created: p.created}
	var err error
	if o.Certificates, err = image.Certificates(); err != nil {
		return "", err
	}
	var platforms []image.Platform
	for _, t := range targets() {
		if t.program != manager {
			continue
		}
		platform, err := p.platform(t, o, provenance)
		if err != nil {
			return "", fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
		}
		platforms = append(platforms, platform)
	}
	index, err := image.Index(platforms, o)
	if err != nil {
		return "", err
	}
	if _, err := image.WriteIndex(filepath.Join(p.out, manager+"-"+p.version+".oci.tar"), index, p.image, image.Tag(p.version)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return digest.String(), err
}

func (p packer) platform(t target, o image.Options, provenance []byte) (image.Platform, error) {
	none := image.Platform{}
	binary, err := image.ReadBinary(filepath.Join(p.parts, t.file()), t.arch)
	if err != nil {
		return none, err
	}
	built, err := image.Build(binary, t.arch, o)
	if err != nil {
		return none, err
	}
	digest, err := built.Digest()
	if err != nil {
		return none, err
	}
	document, err := sbom.Image(manager, t.arch, digest.String(), binary, certificates(), p.sbomOptions())
	if err != nil {
		return none, err
	}
	if err := p.write(t.file()+".spdx.json", document, 0o644); err != nil {
		return none, err
	}
	subjects := []attestation.Subject{{Name: "pkg:oci/" + manager + "?arch=" + t.arch, SHA256: digest.Hex}}
	platform := image.Platform{Architecture: t.arch, Image: built}
	for _, said := range []struct {
		predicateType string
		predicate     []byte
	}{{sbom.PredicateType, document}, {attestation.ProvenanceType, provenance}} {
		statement, err := attestation.Statement(subjects, said.predicateType, said.predicate)
		if err != nil {
			return none, err
		}
		platform.Attestations = append(platform.Attestations, image.Attestation{PredicateType: said.predicateType, Statement: statement})
	}
	return platform, nil
}

// certificates is the module of the CAs, as this program was linked with it.
func certificates() sbom.Module {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == certificatesModule {
				return sbom.ModuleOf(m)
			}
		}
	}
	return sbom.Module{Path: certificatesModule, Version: "unknown"}
}

func (p packer) packBinary(name string) error {
	content, err := os.ReadFile(filepath.Join(p.parts, name))
	if err != nil {
		return err
	}
	document, err := sbom.Binary(name, content, p.sbomOptions())
	if err != nil {
		return err
	}
	return errors.Join(p.write(name, content, 0o755), p.write(name+".spdx.json", document, 0o644))
}

// packCompletions copies what ccmctl has written for the shells.
func (p packer) packCompletions() error {
	for _, shell := range shells() {
		content, err := os.ReadFile(filepath.Join(p.parts, completion(shell)))
		if err == nil {
			err = p.write(completion(shell), content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p packer) packGuest(name string) error {
	content, err := os.ReadFile(filepath.Join(p.parts, name+".wasm"))
	if err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(p.parts, name+".modules.json"))
	if err != nil {
		return err
	}
	var modules []sbom.Module
	if err := json.Unmarshal(list, &modules); err != nil {
		return fmt.Errorf("modules of %s: %w", name, err)
	}
	document, err := sbom.Guest(name+".wasm", content, modules, p.sbomOptions())
	if err != nil {
		return err
	}
	return errors.Join(p.write(name+".wasm", content, 0o644), p.write(name+".wasm.spdx.json", document, 0o644))
}

func (p packer) write(name string, content []byte, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(p.out, name), content, mode)
}

// vouch writes what covers all files: provenance, checksums, signatures.
func (p packer) vouch(digest string, provenance []byte) error {
	files, err := sums(p.out)
	if err != nil {
		return err
	}
	index := attestation.Subject{Name: "pkg:oci/" + manager, SHA256: strings.TrimPrefix(digest, "sha256:")}
	statement, err := attestation.Statement(append(files, index), attestation.ProvenanceType, provenance)
	if err != nil {
		return err
	}
	if err := p.write("provenance.intoto.json", statement, 0o644); err != nil {
		return err
	}
	if files, err = sums(p.out); err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "%s  %s\n", f.SHA256, f.Name)
	}
	if err := p.write(checksums, []byte(list.String()), 0o644); err != nil {
		return err
	}
	return p.signAll(digest)
}
