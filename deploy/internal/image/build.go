// Package image makes OCI images of the manager without a Docker daemon: a
// static binary and CA certificates, nothing else, run as user 65532. Equal
// input makes equal bytes, on any machine with the same Go.
//
// It imports go-containerregistry and nothing of this project.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// user is distroless' nonroot.
	user       = 65532
	entrypoint = "/cloud-controller-manager"
	certsPath  = "/etc/ssl/certs/ca-certificates.crt"
)

// Options are what the images of all architectures have in common.
type Options struct {
	// Version of the program, a semantic version with v.
	Version string
	// Revision is the commit of the source; none is said where it is empty.
	Revision string
	// Created is when the image says that it was made: a time of the source,
	// since the time of the build would make each build another.
	Created time.Time
	// Certificates are the CAs that the image trusts, in PEM.
	Certificates []byte
}

// Build makes the image of one binary, which must be static and of this architecture.
func Build(binary []byte, arch string, o Options) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	// The certificates change seldom: a layer of their own is fetched seldom.
	for _, files := range [][]file{base(o.Certificates), {{path: entrypoint, mode: 0o755, content: binary}}} {
		l, err := layer(files)
		if err != nil {
			return nil, err
		}
		addendum := mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "deploy/image"}}
		if image, err = mutate.Append(image, addendum); err != nil {
			return nil, err
		}
	}
	image, err := configure(image, arch, o)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, Labels(o)).(v1.Image), nil
}

// ReadBinary refuses what would not start in an empty image.
func ReadBinary(path, arch string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the binary: %w; build it by `make build`", err)
	}
	machine, ok := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if !ok {
		return nil, fmt.Errorf("-arch %s: unknown, use amd64 or arm64", arch)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s is not a Linux program: %w", path, err)
	}
	if program.Machine != machine {
		return nil, fmt.Errorf("%s is built for %s, -arch says %s; set GOARCH=%s when building", path, program.Machine, arch, arch)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is linked dynamically, but the image has no libraries; build it with CGO_ENABLED=0", path)
		}
	}
	return content, nil
}

type file struct {
	path    string // a directory when it ends in /
	mode    int64
	content []byte
}

// base is what an empty image lacks: names of the users, the certificates, and
// a place for temporary files, where a volume can be mounted.
func base(certificates []byte) []file {
	return []file{
		{path: "/etc/", mode: 0o755},
		{path: "/etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", user)},
		{path: "/etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0::/:/sbin/nologin\nnonroot:x:%d:%d::/:/sbin/nologin\n", user, user)},
		{path: "/etc/ssl/", mode: 0o755},
		{path: "/etc/ssl/certs/", mode: 0o755},
		{path: certsPath, mode: 0o644, content: certificates},
		{path: "/tmp/", mode: 0o1777},
	}
}

func layer(files []file) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: strings.TrimPrefix(f.path, "/"), Mode: f.mode, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := addFile(w, h, f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	// A sixth less to fetch than by the library's default, for three seconds more.
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression))
}

func configure(image v1.Image, arch string, o Options) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.Created}
	config.Config = v1.Config{
		Entrypoint: []string{entrypoint},
		User:       fmt.Sprintf("%d:%d", user, user),
		WorkingDir: "/",
		Env:        []string{"SSL_CERT_FILE=" + certsPath},
		Labels:     Labels(o),
	}
	return mutate.ConfigFile(image, config)
}

// Labels are those of the OCI image specification; the same as annotations.
func Labels(o Options) map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       "cloud-controller-manager",
		"org.opencontainers.image.description": "A Kubernetes cloud-controller-manager whose cloud provider is a WebAssembly module",
		"org.opencontainers.image.source":      "https://github.com/wasm-ccm/wasm-ccm",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.Version,
		"org.opencontainers.image.created":     o.Created.UTC().Format(time.RFC3339),
	}
	if o.Revision != "" {
		l["org.opencontainers.image.revision"] = o.Revision
	}
	return l
}
