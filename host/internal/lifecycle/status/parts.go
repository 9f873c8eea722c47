package status

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	// maxParts and maxPart bound the saved parts of one bundle, compressed; a ConfigMap takes 1
	// MiB.
	maxParts = 4
	maxPart  = 900 << 10
	// maxContent bounds a bundle before compression, in bytes.
	maxContent = 256 << 20
	keyPart    = "part"
)

// sets are the sets of ConfigMaps, one for each saved bundle.
var sets = [...]string{"a", "b", "c"}

// index describes a set: one zstd frame over the module, the configuration and the
// signature, concatenated, split into parts.
type index struct {
	Set string `json:"set"`
	// Stored: the module is not in the parts, but in the store of the manager that saved it, by
	// its digest.
	Stored bool `json:"stored,omitempty"`
	// Parts are the SHA-256 of each part in hexadecimal, as all digests here.
	Parts     []string `json:"parts"`
	Module    section  `json:"module"`
	Config    *section `json:"config,omitempty"`
	Signature *section `json:"signature,omitempty"`
	// ConfigPrivate: there was a configuration, which is not saved.
	ConfigPrivate bool   `json:"configPrivate,omitempty"`
	Revision      string `json:"revision"`
	Origin        string `json:"origin,omitempty"`
	Image         string `json:"imageDigest,omitempty"`
}

// section is one piece of the content.
type section struct {
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest"`
}

func sectionOf(data []byte) *section {
	if data == nil {
		return nil
	}
	return &section{Bytes: len(data), Digest: digest(data)}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pack returns the parts of a bundle, and the index without a set.
func pack(b source.Bundle) (*index, [][]byte, error) {
	config := b.Config
	// Invariant S11 (host/SECURITY.md): a private configuration is saved nowhere.
	if b.ConfigPrivate {
		config = nil
	}
	x := &index{
		Stored: b.File != nil, Module: section{Bytes: int(b.ModuleBytes()), Digest: b.ModuleDigest()}, Config: sectionOf(config), Signature: sectionOf(b.Signature),
		ConfigPrivate: b.ConfigPrivate, Revision: b.Revision, Origin: text.Line(b.Origin, maxText), Image: text.Line(b.Image, maxText),
	}
	if x.bytes() > maxContent {
		return nil, nil, fmt.Errorf("a bundle of %d bytes is %w: the limit is %d", x.bytes(), ErrTooLarge, maxContent)
	}
	// The manager packs beside its other work: faster, and less tight.
	parts, err := source.Packing{Bytes: maxPart, Parts: maxParts, Level: zstd.SpeedBetterCompression}.Pack(b.Module, config, b.Signature)
	switch {
	case errors.Is(err, source.ErrNoRoom):
		return nil, nil, fmt.Errorf("a bundle of more than %d bytes after compression is %w: %d ConfigMaps of %d bytes are the limit; build the module smaller", maxParts*maxPart, ErrTooLarge, maxParts, maxPart)
	case err != nil:
		return nil, nil, fmt.Errorf("a bundle: %w", err)
	}
	for _, part := range parts {
		x.Parts = append(x.Parts, digest(part))
	}
	return x, parts, nil
}

// sections are the pieces in the parts; nil for a missing one.
func (x *index) sections() []*section {
	if x.Stored {
		return []*section{nil, x.Config, x.Signature}
	}
	return []*section{&x.Module, x.Config, x.Signature}
}

// bytes is the size of the parts' content.
func (x *index) bytes() int {
	n := 0
	for _, s := range x.sections() {
		if s != nil {
			n += s.Bytes
		}
	}
	return n
}

// validate refuses an index that pack cannot make, so that other functions can rely on it.
func (x *index) validate() error {
	if !slices.Contains(sets[:], x.Set) || len(x.Parts) == 0 && x.bytes() > 0 || len(x.Parts) > maxParts || x.Revision == "" {
		return errors.New("its bundle has no valid set, parts or revision")
	}
	for _, s := range x.sections() {
		if s != nil && (s.Bytes < 0 || s.Bytes > maxContent) {
			return fmt.Errorf("its bundle has a piece of %d bytes", s.Bytes)
		}
	}
	if x.bytes() > maxContent {
		return fmt.Errorf("its bundle has %d bytes, more than %d", x.bytes(), maxContent)
	}
	return nil
}

// writePart replaces a part as a whole, including others' changes.
func (o *Object) writePart(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.namespace, Name: name,
			// Not LabelProvider: a list by it should not include parts.
			Labels:      map[string]string{labelManagedBy: managedBy},
			Annotations: map[string]string{annotationDescription: "A part of a generation of the cloud provider " + o.provider + ", from which the manager starts. Do not edit it."},
		},
	}
	if data != nil {
		cm.BinaryData = map[string][]byte{keyPart: data}
	}
	_, err := o.configMaps.Update(ctx, cm, metav1.UpdateOptions{FieldManager: managerModule})
	if !apierrors.IsNotFound(err) {
		return o.explain("update", name, err)
	}
	_, err = o.configMaps.Create(ctx, cm, metav1.CreateOptions{FieldManager: managerModule})
	return o.explain("create", name, err)
}

// clearBut empties all parts that the record does not name.
func (o *Object) clearBut(ctx context.Context, now stored) error {
	parts := map[string]int{}
	for _, x := range now.Bundles {
		parts[x.Set] = len(x.Parts)
	}
	for _, set := range sets {
		for i := parts[set]; i < maxParts; i++ {
			name := partName(o.provider, set, i)
			cm, err := o.get(ctx, name)
			if err == nil && cm != nil && len(cm.BinaryData) > 0 {
				err = o.writePart(ctx, name, nil)
			}
			if err != nil {
				return fmt.Errorf("a configuration that was public before it became private may still be there: %w", err)
			}
		}
	}
	return nil
}

// unpack reads the bundle of a valid index.
func (o *Object) unpack(ctx context.Context, x *index) (*source.Bundle, error) {
	var packed []byte
	for i, want := range x.Parts {
		name := partName(o.provider, x.Set, i)
		cm, err := o.get(ctx, name)
		if err != nil {
			return nil, err
		}
		if cm == nil {
			return nil, fmt.Errorf("%w: ConfigMap %s does not exist", ErrDamaged, o.key(name))
		}
		if digest(cm.BinaryData[keyPart]) != want {
			return nil, fmt.Errorf("%w: ConfigMap %s does not have the digest %s", ErrDamaged, o.key(name), want)
		}
		packed = append(packed, cm.BinaryData[keyPart]...)
	}
	var content []byte
	if len(packed) > 0 {
		var err error
		if content, err = source.Unpack(packed, int64(x.bytes())); err != nil {
			return nil, fmt.Errorf("%w: ConfigMaps of set %s do not decompress: %w", ErrDamaged, x.Set, err)
		}
	}
	bundle, err := x.split(content)
	if err != nil || !x.Stored {
		return bundle, err
	}
	if bundle.File, err = o.stored(x); err != nil {
		return nil, err
	}
	return bundle, nil
}

// stored opens a module outside the parts. A store that has lost it reports only that it is
// missing.
func (o *Object) stored(x *index) (*source.File, error) {
	if o.store == nil {
		return nil, ErrNotSaved
	}
	f, err := o.store.Open(x.Module.Digest)
	if err != nil {
		return nil, fmt.Errorf("%w in this manager's directory: %w", ErrNotSaved, err)
	}
	return f, nil
}

// hold protects the record's modules in the store from later ones.
func (o *Object) hold(now stored) {
	if o.store == nil {
		return
	}
	var digests []string
	for _, x := range now.Bundles {
		if x.Stored {
			digests = append(digests, x.Module.Digest)
		}
	}
	o.store.Hold(o.provider, digests...)
}

// Release lets the store drop the record's modules: the provider has ended. A Load holds
// them again.
func (o *Object) Release() { o.hold(stored{}) }

// packed is pack, with a module that does not fit put into the store.
func (o *Object) packed(b source.Bundle) (*index, [][]byte, error) {
	x, parts, err := pack(b)
	if !errors.Is(err, ErrTooLarge) || o.store == nil || b.File != nil {
		return x, parts, err
	}
	f, err := o.store.Put(bytes.NewReader(b.Module), maxContent)
	if err != nil {
		return nil, nil, fmt.Errorf("a bundle: %w", err)
	}
	b.Module, b.File = nil, f
	return pack(b)
}

// split splits the content into its pieces, and checks their digests.
func (x *index) split(content []byte) (*source.Bundle, error) {
	if len(content) != x.bytes() {
		return nil, fmt.Errorf("%w: it has %d bytes, and should have %d", ErrDamaged, len(content), x.bytes())
	}
	pieces := make([][]byte, 0, 3)
	for _, s := range x.sections() {
		var piece []byte
		if s != nil {
			piece, content = content[:s.Bytes:s.Bytes], content[s.Bytes:]
			if digest(piece) != s.Digest {
				return nil, fmt.Errorf("%w: a piece of it does not have the digest %s", ErrDamaged, s.Digest)
			}
		}
		pieces = append(pieces, piece)
	}
	return &source.Bundle{
		Module: pieces[0], Config: pieces[1], Signature: pieces[2],
		ConfigPrivate: x.ConfigPrivate, Revision: x.Revision, Origin: text.Line(x.Origin, maxText), Image: text.Line(x.Image, maxText),
	}, nil
}
