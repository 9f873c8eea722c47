package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// bundle is an archive without secrets, and the list of missing parts.
type bundle struct {
	archive
	*redactor
	asked    freeTexts
	contents map[string]any // by file
	missing  []missed
	secrets  int // read, for their removal from free texts
	say      func(string)
}

// missed is an unreadable part.
type missed struct {
	what string
	err  error
}

// miss records a missing part, with the reason.
func (b *bundle) miss(what string, err error) { b.missing = append(b.missing, missed{what, err}) }

// missed records a part with an error.
func (b *bundle) missed(what string, err error) {
	if err != nil {
		b.miss(what, err)
	}
}

func (b *bundle) errors() (all []error) {
	for _, m := range b.missing {
		all = append(all, fmt.Errorf("%s: %w", m.what, m.err))
	}
	return all
}

// ownError is an error in ccmctl's own words, without quotations.
type ownError string

func (e ownError) Error() string { return string(e) }

func own(format string, args ...any) error { return ownError(fmt.Sprintf(format, args...)) }

// harmless is an error as the archive shows it. Other programs' words are free text.
func harmless(err error) string {
	var ours ownError
	var errno syscall.Errno
	switch reason := apierrors.ReasonForError(err); {
	case errors.As(err, &ours):
		return ours.Error()
	case reason != metav1.StatusReasonUnknown && wordShape.MatchString(string(reason)):
		return "the API server refuses: " + string(reason)
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return "ccmctl printed the error"
}

// part reads a part of the bundle, within a time.
func (b *bundle) part(ctx context.Context, most time.Duration, what string, read func(context.Context) error) {
	b.say(what)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	b.missed(what, read(ctx))
}

// show takes the fields of a document, or of a list of them, into the file.
func (b *bundle) show(file string, document any) error {
	shown, err := picked(file, document)
	if err == nil {
		b.contents[file] = shown
	}
	return err
}

// documents adds a file for each document with content.
func (b *bundle) documents() {
	for _, d := range documents {
		if b.contents[d.file] == nil {
			continue
		}
		data, err := json.MarshalIndent(b.contents[d.file], "", "  ")
		if err == nil {
			err = b.add(d.file, d.about, append(data, '\n'))
		}
		b.missed(d.file, err)
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
	for _, m := range b.missing {
		fmt.Fprintf(&out, "- %s: %s\n", m.what, harmless(m.err))
	}
	fmt.Fprint(&out, `
## What was left out on purpose

- Secrets, modules, the release of Helm, values of annotations and of environments, and of flags but a few; paths, header
  prefixes, certificates and templates of grants and credentials. A number stands for the size of such a text.
- Messages, logs and configurations of modules, unless they were asked for (--messages, --logs, --configurations).
- Texts that are not one word of at most 512 bytes. Names of Services, Nodes and namespaces are in it, and addresses.
`)
	if b.asked.any() {
		fmt.Fprintf(&out, `
## It has free text

%s was asked for, and a secret may stand in it: what looks like one is %s now, and so are the values of %d Secrets that the
configuration names. Another one cannot be told from other words. Read these files before you give them to somebody.
`, freeDirectory, scrubbed, b.secrets)
	}
	return out.Bytes()
}

// line is a text on one line, without secrets.
func (b *bundle) line(s string) string {
	return text.Line(string(b.clean([]byte(s))), v1alpha1.MaxText)
}

// summary prints what was written.
func (b *bundle) summary(w io.Writer, file string, size int) {
	text := ""
	if b.asked.any() {
		text = " It has free text, in which secrets may stand (" + freeDirectory + ")."
	}
	fmt.Fprintf(w, "%s: %d files, %d bytes.%s Look through it before you give it to somebody.\n", file, len(b.files), size, text)
	for _, err := range b.errors() {
		fmt.Fprintln(w, "left out:", b.line(err.Error()))
	}
}
