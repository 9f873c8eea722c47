package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// bundle is an archive without secrets, and what is missing in it.
type bundle struct {
	archive
	*redactor
	missing []missed
	secrets int // read to be removed
	say     func(string)
}

// missed is what could not be read.
type missed struct {
	what string
	err  error
}

// miss says what is not in the bundle, and why.
func (b *bundle) miss(what string, err error) { b.missing = append(b.missing, missed{what, err}) }

func (b *bundle) errors() (all []error) {
	for _, m := range b.missing {
		all = append(all, fmt.Errorf("%s: %w", m.what, m.err))
	}
	return all
}

// text adds a text. It is the one way into the archive, with object.
//
// Invariant V6 (host/SECURITY.md): nothing comes into a bundle that was not scrubbed.
func (b *bundle) text(name, about string, data []byte) {
	clean := b.clean(data)
	if len(clean) == 0 && len(data) > 0 {
		b.miss(name, errors.New("secrets stand in it too often"))
		return
	}
	if err := b.add(name, about, clean); err != nil {
		b.miss(name, err)
	}
}

// object adds a document as JSON.
//
// Invariant V6 (host/SECURITY.md): nothing comes into a bundle that was not scrubbed.
func (b *bundle) object(name, about string, object any) {
	data, err := b.json(object)
	if err == nil {
		err = b.add(name, about, data)
	}
	if err != nil {
		b.miss(name, err)
	}
}

// finish adds the README, and writes the archive.
func (b *bundle) finish(w io.Writer, directory string) error {
	if err := b.add("README.md", "this file", b.readme()); err != nil {
		return err
	}
	return b.write(w, directory)
}

func (b *bundle) readme() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# A support bundle of wasm-ccm\n\nMade by ccmctl %s at %s. Look through it before you give it to somebody.\n\n## What is in it\n\n| file | what | bytes | cut |\n|---|---|---|---|\n",
		version.Release(), b.begun.Format(time.RFC3339))
	b.sort()
	for i := range b.files {
		f := &b.files[i]
		fmt.Fprintf(&out, "| %s | %s | %d | %s |\n", f.name, f.about, len(f.data), f.note)
	}
	fmt.Fprint(&out, "\n## What could not be read, or had no room\n\n")
	if len(b.missing) == 0 {
		fmt.Fprintln(&out, "Nothing.")
	}
	for _, err := range b.errors() {
		fmt.Fprintln(&out, "-", b.line(err.Error()))
	}
	fmt.Fprintf(&out, `
## What was left out on purpose

- Secrets, modules and their configurations; configurations of signers, templates of bodies and certificates.
- Annotations, and all objects but those above. Names of Services, Nodes and namespaces are in it, and addresses.
- What looks like a secret in a text: passwords in URLs, queries, headers that authenticate, private keys, tokens, and
  what follows a word such as password= or token:. It is %s now.
- The values of %d Secrets that the configuration names, in each encoding that the manager knows.

A secret that stands in a message without any of these signs, and in no Secret that could be read, cannot be told from
other words.
`, scrubbed, b.secrets)
	return out.Bytes()
}

// line is a text in one line, without secrets.
func (b *bundle) line(s string) string {
	return text.Line(string(b.clean([]byte(s))), v1alpha1.MaxText)
}

// summary says what was written.
func (b *bundle) summary(w io.Writer, file string, size int) {
	fmt.Fprintf(w, "%s: %d files, %d bytes. Look through it before you give it to somebody.\n", file, len(b.files), size)
	for _, err := range b.errors() {
		fmt.Fprintln(w, "left out:", b.line(err.Error()))
	}
}
