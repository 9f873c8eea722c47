// Command image packs the manager into an OCI image, without a Docker daemon:
// a static binary and CA certificates, nothing else, run as user 65532. The
// result is a tar of an OCI layout, which `ctr images import`, `podman load`,
// `skopeo copy oci-archive:...` and `crane push` read. The same input makes the
// same bytes.
//
// For a release, with all architectures, see deploy/release.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/image"
)

// name is the name that the chart has, too.
const name = "localhost/wasm-ccm/cloud-controller-manager"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var o image.Options
	var binary, arch, out string
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.StringVar(&binary, "binary", "build/cloud-controller-manager", "the manager, built with CGO_ENABLED=0")
	fs.StringVar(&o.Version, "version", "v0.0.0", "version of the image, its tag")
	fs.StringVar(&arch, "arch", runtime.GOARCH, "architecture of the binary: amd64 or arm64")
	fs.StringVar(&out, "o", "build/cloud-controller-manager.oci.tar", "the archive to write")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q, see -help", fs.Arg(0))
	}
	o.Created = time.Unix(0, 0) // it is for trying out: the same tree, committed or not, makes the same image
	packed, err := build(binary, arch, o)
	if err != nil {
		return err
	}
	tag := image.Tag(o.Version)
	size, err := image.WriteImage(out, packed, name, tag)
	if err != nil {
		return err
	}
	digest, err := packed.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s  %.1f MiB (%d bytes)\nimage   %s:%s\ndigest  %s\nhelm    --set image.tag=%s\n",
		out, float64(size)/(1<<20), size, name, tag, digest, tag)
	return err
}

func build(path, arch string, o image.Options) (v1.Image, error) {
	binary, err := image.ReadBinary(path, arch)
	if err != nil {
		return nil, err
	}
	if o.Certificates, err = image.Certificates(); err != nil {
		return nil, err
	}
	return image.Build(binary, arch, o)
}
