// Command release makes a release of the project from the commit that is
// checked out: the image for all architectures with SBOM and provenance, ccmctl,
// the modules, the chart, checksums and, with a key, signatures. The same commit
// and version make the same bytes, on any machine with the same Go and the same
// packages of Debian. `make release` calls it; deploy/RELEASE.md is for users.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	version, image, ldflags, tools, key, out string
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.StringVar(&o.version, "version", "", "version of the release, such as v0.2.0")
	fs.StringVar(&o.image, "image", "localhost/wasm-ccm/cloud-controller-manager", "name that the image bears, without a tag")
	fs.StringVar(&o.ldflags, "ldflags", "", "of the Go programs: the stamps of their versions")
	fs.StringVar(&o.tools, "tools", "build/bin", "directory of the compiler of the modules, which is built there")
	fs.StringVar(&o.key, "key", "", "file of the private key, in PEM, that signs (default: no signatures)")
	fs.StringVar(&o.out, "o", "build/release", "directory of the release, replaced when it is complete")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q, see -help", fs.Arg(0))
	}
	source, err := readSource(ctx, o.version)
	if err != nil {
		return err
	}
	sign, err := newSigner(o.key)
	if err != nil {
		return err
	}
	return release(ctx, o, source, sign, stdout)
}

// release builds and packs beside the directory of the release, which changes
// when all is there.
func release(ctx context.Context, o options, s source, sign *signer, stdout io.Writer) error {
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	tree, parts := filepath.Join(work, "tree"), filepath.Join(work, "parts")
	if err := s.export(ctx, tree); err != nil {
		return err
	}
	versioned, err := s.versionModules(ctx, work, parts, o.version)
	if err != nil {
		return fmt.Errorf("modules of Go: %w", err)
	}
	if err := build(ctx, o, tree, parts); err != nil {
		return err
	}
	packages, err := debianPackages(ctx)
	if err != nil {
		return err
	}
	fresh := out + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(fresh, 0o755)); err != nil {
		return err
	}
	p := packer{version: o.version, image: o.image, commit: s.commit, created: s.created, debian: packages, tree: tree, parts: parts, out: fresh, sign: sign}
	digest, err := p.pack()
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.Rename(fresh, out)); err != nil {
		return err
	}
	if err := versioned.tag(ctx); err != nil {
		return err
	}
	return report(stdout, out, o, digest, versioned, sign)
}
