// Package sbom writes what is in a release as documents of SPDX 2.3 in JSON.
// What a Go program is made of, the program itself says: the linker stores the
// modules in it. Equal input makes equal bytes.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	// PredicateType is that of an in-toto statement about a document.
	PredicateType = "https://spdx.dev/Document"

	project     = "github.com/wasm-ccm/wasm-ccm"
	license     = "Apache-2.0"
	noAssertion = "NOASSERTION"
)

// Options are what all documents of a release have in common.
type Options struct {
	// Version of the release.
	Version string
	// Created is the time that the documents bear: one of the source, not of the build.
	Created time.Time
}

// Module is a part of something, at one version.
type Module struct {
	// Path is the module's path, such as k8s.io/api.
	Path string
	// Version is a semantic version with v; the release's where it is empty.
	Version string
	// Sum is go.sum's, with h1:.
	Sum string
}

// Binary describes a Go program.
func Binary(name string, content []byte, o Options) ([]byte, error) {
	d := newDocument(name, content, o)
	if err := d.binary("DOCUMENT", "DESCRIBES", name, content); err != nil {
		return nil, err
	}
	return d.bytes()
}

// Image describes an image: a Go program and the certificates of a module.
func Image(name, arch, digest string, binary []byte, certificates Module, o Options) ([]byte, error) {
	d := newDocument(name+"-linux-"+arch, []byte(digest), o)
	image := d.add("DOCUMENT", "DESCRIBES", &spdx.Package{
		PackageName: name, PackageVersion: o.Version, PrimaryPackagePurpose: "CONTAINER",
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: license,
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: strings.TrimPrefix(digest, "sha256:")}},
		PackageExternalReferences: purl("pkg:oci/" + name + "@" + strings.Replace(digest, ":", "%3A", 1) + "?arch=" + arch),
	})
	if err := d.binary(image, "CONTAINS", name, binary); err != nil {
		return nil, err
	}
	d.module(image, "CONTAINS", certificates)
	return d.bytes()
}

// Guest describes a WebAssembly module that is made of these modules of Go.
func Guest(name string, content []byte, modules []Module, o Options) ([]byte, error) {
	d := newDocument(name, content, o)
	d.program("DOCUMENT", "DESCRIBES", name, content, modules)
	return d.bytes()
}

type document struct {
	options Options
	spdx    *spdx.Document
}

func newDocument(name string, content []byte, o Options) *document {
	return &document{options: o, spdx: &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: "https://" + project + "/spdx/" + o.Version + "/" + name + "-" + sum(content),
		CreationInfo: &spdx.CreationInfo{
			Created:  o.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "wasm-ccm"}, {CreatorType: "Tool", Creator: "wasm-ccm-release-" + strings.TrimPrefix(o.Version, "v")}},
		},
	}}
}

func (d *document) bytes() ([]byte, error) {
	var out bytes.Buffer
	if err := json.Write(d.spdx, &out, json.Indent(" "), json.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("SPDX document of %s: %w", d.spdx.DocumentName, err)
	}
	return out.Bytes(), nil
}

// binary adds a Go program with its modules and Go's own library.
func (d *document) binary(parent common.ElementID, relation, name string, content []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s does not say what it is made of: %w", name, err)
	}
	modules := []Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, dependency := range info.Deps {
		modules = append(modules, ModuleOf(dependency))
	}
	d.program(parent, relation, name, content, modules)
	return nil
}

// ModuleOf is a module as the build used it. A replacement in this repository
// is a part of the release.
func ModuleOf(m *debug.Module) Module {
	if r := m.Replace; r != nil {
		if r.Version == "" {
			return Module{Path: m.Path}
		}
		m = r
	}
	return Module{Path: m.Path, Version: m.Version, Sum: m.Sum}
}

func (d *document) program(parent common.ElementID, relation, name string, content []byte, modules []Module) {
	program := d.add(parent, relation, &spdx.Package{
		PackageName: name, PackageVersion: d.options.Version, PackageFileName: name, PrimaryPackagePurpose: "APPLICATION",
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: license,
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: sum(content)}},
		PackageExternalReferences: purl("pkg:golang/" + project + "@" + d.options.Version),
	})
	for _, m := range modules {
		d.module(program, "DEPENDS_ON", m)
	}
}

func (d *document) module(parent common.ElementID, relation string, m Module) {
	p := &spdx.Package{
		PackageName: m.Path, PackageVersion: m.Version, PrimaryPackagePurpose: "LIBRARY",
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion,
	}
	if m.Version == "" {
		p.PackageVersion, p.PackageLicenseDeclared = d.options.Version, license
	}
	if m.Sum != "" {
		p.PackageComment = "go.sum has " + m.Sum // of the module's files, so it is no checksum of one file
	}
	p.PackageExternalReferences = purl("pkg:golang/" + m.Path + "@" + p.PackageVersion)
	d.add(parent, relation, p)
}

// add gives the package a name of its own and returns it.
func (d *document) add(parent common.ElementID, relation string, p *spdx.Package) common.ElementID {
	id := common.ElementID(fmt.Sprintf("Package-%d-%s", len(d.spdx.Packages), notInIDs.ReplaceAllString(p.PackageName, "-")))
	p.PackageSPDXIdentifier = id
	p.PackageSupplier = &common.Supplier{Supplier: noAssertion}
	if p.PackageLicenseDeclared == license {
		p.PackageSupplier = &common.Supplier{SupplierType: "Organization", Supplier: "wasm-ccm"}
	}
	p.PackageDownloadLocation, p.PackageCopyrightText, p.IsFilesAnalyzedTagPresent = noAssertion, noAssertion, true
	d.spdx.Packages = append(d.spdx.Packages, p)
	d.spdx.Relationships = append(d.spdx.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(parent)), RefB: common.MakeDocElementID("", string(id)), Relationship: relation,
	})
	return id
}

var notInIDs = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

func purl(locator string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: locator}}
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}
