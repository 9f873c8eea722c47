// Command image packs the manager into an OCI image, without a Docker daemon:
// a static binary and CA certificates, nothing else, run as user 65532. The
// result is a tar of an OCI layout, which `ctr images import`, `podman load`,
// `skopeo copy oci-archive:...` and `crane push` read. The same input makes the
// same bytes.
//
// It imports go-containerregistry and nothing of this project.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	binary, certificates, version, revision, arch, name, out string
}

func run(args []string, stdout io.Writer) error {
	var o options
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.StringVar(&o.binary, "binary", "build/cloud-controller-manager", "the manager, built with CGO_ENABLED=0")
	fs.StringVar(&o.certificates, "ca-certificates", "/etc/ssl/certs/ca-certificates.crt", "PEM file of the certificate authorities that the image trusts")
	fs.StringVar(&o.version, "version", "v0.0.0", "version of the image, its tag")
	fs.StringVar(&o.revision, "revision", "", "commit of the source")
	fs.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture of the binary: amd64 or arm64")
	fs.StringVar(&o.name, "name", "localhost/wasm-ccm/cloud-controller-manager", "name of the image, without a tag")
	fs.StringVar(&o.out, "o", "build/cloud-controller-manager.oci.tar", "the archive to write")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q, see -help", fs.Arg(0))
	}
	image, err := build(o)
	if err != nil {
		return err
	}
	size, err := writeArchive(image, o)
	if err != nil {
		return fmt.Errorf("writing %s: %w", o.out, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s  %.1f MiB (%d bytes)\nimage   %s:%s\ndigest  %s\n",
		o.out, float64(size)/(1<<20), size, o.name, tag(o.version), digest)
	return err
}
