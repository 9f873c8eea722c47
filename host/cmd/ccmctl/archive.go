package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	// maxArchived bounds one file of an archive, and maxArchive all of them, in
	// bytes before compression.
	maxArchived = 4 << 20
	maxArchive  = 24 << 20
)

// archive collects files. It cuts or drops files above its bounds, and says so.
type archive struct {
	begun time.Time
	files []archived
	bytes int
}

// archived is one file.
type archived struct {
	name, about string
	data        []byte
	note        string // about a cut
}

// add adds a file. Of a long text it keeps the last, newest lines.
func (a *archive) add(name, about string, data []byte) error {
	f := archived{name: name, about: about, data: data}
	if len(data) > maxArchived {
		f.data = data[len(data)-maxArchived:]
		f.data = f.data[bytes.IndexByte(f.data, '\n')+1:]
		f.note = fmt.Sprintf("only its last %d of %d bytes", len(f.data), len(data))
	}
	if a.bytes+len(f.data) > maxArchive {
		return own("the archive has no room for its %d bytes", len(f.data))
	}
	a.bytes += len(f.data)
	a.files = append(a.files, f)
	return nil
}

func (a *archive) sort() {
	slices.SortFunc(a.files, func(x, y archived) int { return cmp.Compare(x.name, y.name) })
}

// write writes the files as a tar.gz, below a directory, sorted by name.
func (a *archive) write(w io.Writer, directory string) error {
	a.sort()
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for i := range a.files {
		f := &a.files[i]
		header := &tar.Header{Name: directory + "/" + f.name, Mode: 0o600, Size: int64(len(f.data)), ModTime: a.begun, Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}
