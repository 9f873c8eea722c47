package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/imagetest"
)

// program is the least that is a program of that machine: an ELF header and,
// when it is dynamic, the header that names a loader.
func program(t *testing.T, machine elf.Machine, dynamic bool) []byte {
	t.Helper()
	header := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	if dynamic {
		header.Phoff, header.Phnum = 64, 1
	}
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	if dynamic {
		if err := binary.Write(&out, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImage(t *testing.T) {
	bin := write(t, "ccm", program(t, elf.EM_X86_64, false))
	pack := func() (string, string) {
		out, stdout := filepath.Join(t.TempDir(), "image.tar"), new(bytes.Buffer)
		err := run([]string{"-binary", bin, "-arch", "amd64", "-version", "v1.2.3+4", "-o", out}, stdout)
		if err != nil {
			t.Fatal(err)
		}
		return out, stdout.String()
	}
	first, printed := pack()
	second, _ := pack()
	if !bytes.Equal(read(t, first), read(t, second)) {
		t.Error("two archives of the same input differ")
	}
	image, descriptor := open(t, first)
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is broken: %v", err)
	}
	if !strings.Contains(printed, descriptor.Digest.String()) || !strings.Contains(printed, "localhost/wasm-ccm/cloud-controller-manager:v1.2.3_4") {
		t.Errorf("printed %q, without the digest %s or the name", printed, descriptor.Digest)
	}
	if !strings.Contains(printed, "\nhelm    --set image.tag=v1.2.3_4\n") {
		t.Errorf("printed %q, without what Helm needs", printed)
	}
	if got := descriptor.Annotations["io.containerd.image.name"]; got != "localhost/wasm-ccm/cloud-controller-manager:v1.2.3_4" {
		t.Errorf("containerd would call it %q", got)
	}
	checkConfig(t, image)
	want := map[string]int64{
		"etc/": 0o755, "etc/group": 0o644, "etc/passwd": 0o644, "etc/ssl/": 0o755, "etc/ssl/certs/": 0o755,
		"etc/ssl/certs/ca-certificates.crt": 0o644, "tmp/": 0o1777, "cloud-controller-manager": 0o755,
	}
	contents := map[string][]byte{}
	if diff := cmp.Diff(want, files(t, image, contents)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if !bytes.Equal(contents["cloud-controller-manager"], read(t, bin)) || !x509.NewCertPool().AppendCertsFromPEM(contents["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("the image lacks the binary that was given, or certificates")
	}
}

func checkConfig(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/cloud-controller-manager"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	if config.Config.User != "65532:65532" || config.Architecture != "amd64" || config.OS != "linux" || config.Created.Unix() != 0 {
		t.Errorf("user %s, %s/%s, created %s", config.Config.User, config.OS, config.Architecture, config.Created)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, labels := range []map[string]string{config.Config.Labels, manifest.Annotations} {
		if labels["org.opencontainers.image.version"] != "v1.2.3+4" {
			t.Errorf("labels %v lack the version", labels)
		}
	}
}

func TestRefusals(t *testing.T) {
	static := write(t, "ccm", program(t, elf.EM_X86_64, false))
	tests := map[string]struct {
		args []string
		err  string
	}{
		"dynamic":          {[]string{"-binary", write(t, "ccm", program(t, elf.EM_X86_64, true)), "-arch", "amd64"}, "CGO_ENABLED=0"},
		"other machine":    {[]string{"-binary", static, "-arch", "arm64"}, "set GOARCH=arm64"},
		"unknown machine":  {[]string{"-binary", static, "-arch", "vax"}, "use amd64 or arm64"},
		"no program":       {[]string{"-binary", write(t, "text", []byte("text")), "-arch", "amd64"}, "not a Linux program"},
		"no binary":        {[]string{"-binary", "/nonexistent"}, "make build"},
		"surplus argument": {[]string{"x"}, `unexpected argument "x"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "image.tar")
			err := run(append([]string{"-o", out}, test.args...), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is an archive: %v", err)
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// open returns the only image of an archive.
func open(t *testing.T, archive string) (v1.Image, v1.Descriptor) {
	t.Helper()
	index, only := imagetest.Open(t, archive)
	image, err := index.Image(only.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, only
}

// files returns the modes of the image's files and fills in their contents.
func files(t *testing.T, image v1.Image, contents map[string][]byte) map[string]int64 {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.ModTime.Unix() != 0 {
				t.Errorf("%s belongs to %d and is of %s, want root's and of 1970", h.Name, h.Uid, h.ModTime)
			}
			modes[h.Name] = h.Mode
			if contents[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return modes
}
