package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Equal files give equal bytes, sorted by name.
func TestArchiveIsDeterministic(t *testing.T) {
	write := func(names ...string) []byte {
		a := archive{begun: time.Unix(1e9, 0)}
		for _, name := range names {
			if err := a.add(name, "", []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := a.write(&out, "d"); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	first := write("b", "logs/a", "README.md")
	if !bytes.Equal(first, write("README.md", "b", "logs/a")) {
		t.Error("another order makes another archive")
	}
	if got := strings.Join(namesIn(t, first), " "); got != "d/README.md d/b d/logs/a" {
		t.Error(got)
	}
}

func namesIn(t *testing.T, data []byte) (names []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// A long file keeps its last whole lines; a file without room is left out, and named.
func TestArchiveIsBounded(t *testing.T) {
	b := &bundle{archive: archive{}, redactor: &redactor{}}
	long := bytes.Repeat([]byte("a line of twenty ab\n"), maxArchived/20+1)
	for range maxArchive / maxArchived {
		if err := b.add("long", "x", long); err != nil {
			t.Fatal(err)
		}
	}
	// The files above are cut to whole lines: each has less than one line of room left.
	b.free(true, "late", "x", long)
	if b.bytes > maxArchive || len(b.missing) != 1 || len(b.files[0].data)%20 != 0 || b.files[0].data[0] != 'a' {
		t.Errorf("%d bytes, %d files, %d are missing", b.bytes, len(b.files), len(b.missing))
	}
	if readme := string(b.readme()); !strings.Contains(readme, "only its last") || !strings.Contains(readme, "- free-text/late: the archive has no room") {
		t.Errorf("%s", readme)
	}
}

// The index names what is missing, without quoting anybody's text.
func TestTheIndexQuotesNobody(t *testing.T) {
	b := &bundle{redactor: &redactor{}}
	for _, err := range []error{
		apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "q7Zk", errors.New("q7Zk")), errors.New("q7Zk"), own("there are more"),
		&url.Error{Op: "Get", URL: "https://me:q7Zk@h", Err: syscall.ECONNREFUSED}, fmt.Errorf("q7Zk: %w", context.DeadlineExceeded),
	} {
		b.miss("part", err)
	}
	want := "- part: the API server refuses: Forbidden\n- part: ccmctl printed the error\n- part: there are more\n- part: connection refused\n- part: it took too long\n"
	if readme := string(b.readme()); !strings.Contains(readme, want) || strings.Contains(readme, "q7Zk") {
		t.Errorf("%s", readme)
	}
}
