package sparse_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/test/sparse"
)

// Go's reader takes each format for what it is: less than a KiB is 24 MiB.
func TestHolesAreReadAsZeros(t *testing.T) {
	for _, format := range []sparse.Format{sparse.Old, sparse.PAX00, sparse.PAX01, sparse.PAX10} {
		t.Run(string(format), func(t *testing.T) {
			const files, size = 24, 1 << 20
			data := sparse.Tar(format, "provider.wasm", files, size)
			var total int64
			r := tar.NewReader(bytes.NewReader(data))
			for {
				_, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, r)
				if err != nil {
					t.Fatal(err)
				}
				total += n
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(data)
			if err := errors.Join(err, z.Close()); err != nil {
				t.Fatal(err)
			}
			if total != files*size || packed.Len() > 1200 {
				t.Errorf("%d bytes are read as %d, want %d", packed.Len(), total, files*size)
			}
			t.Logf("%d bytes are read as %d", packed.Len(), total)
		})
	}
}
