package source

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

// Join returns the bundle of a ConfigMap. For an index, part is asked for the ConfigMaps of
// the parts; it returns nil for a missing one, and its errors are wrapped. An error is an
// *Error, and the bundle then has only its Origin and Ref. The bundle shares memory with the
// ConfigMaps. The zero value of limits is that of the source.
func Join(cm *corev1.ConfigMap, part func(name string) (*corev1.ConfigMap, error), limits Limits) (Bundle, error) {
	name := types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}
	origin := configMapBundle(name, cm)
	bundle, err := configMapBox(cm, part).open(limits.withDefaults(mebibyte))
	if err != nil {
		return origin, inside(err, origin.Origin)
	}
	bundle.Origin, bundle.Ref = origin.Origin, origin.Ref
	return bundle, nil
}

// Parts returns the names of the ConfigMaps in an index, sorted and each once; none if the
// ConfigMap holds the module itself.
func Parts(cm *corev1.ConfigMap) ([]string, error) {
	x, err := configMapBox(cm, nil).index()
	if err != nil || x == nil {
		return nil, err
	}
	return x.configMaps(), nil
}

// configMapBundle returns a bundle without content; cm is nil if it does not exist.
func configMapBundle(name types.NamespacedName, cm *corev1.ConfigMap) Bundle {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: name.Namespace, Name: name.Name}
	if cm != nil {
		ref.UID, ref.ResourceVersion = cm.UID, cm.ResourceVersion
	}
	return Bundle{Origin: "ConfigMap " + name.String(), Ref: ref}
}

// inside adds the place to an error of a box.
func inside(err error, where string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return failed(e.Reason, "%s: %w", where, e.Err)
}

func configMapBox(cm *corev1.ConfigMap, find func(name string) (*corev1.ConfigMap, error)) box {
	values := valuesOf(cm)
	read := func(key string, _ int64) ([]byte, error) { return values[key], nil }
	part := func(p part, _ int64) ([]byte, error) {
		cm, err := find(p.ConfigMap)
		if err != nil {
			return nil, err
		}
		if cm == nil {
			return nil, errNoPart
		}
		return p.in(cm)
	}
	return box{names: slices.Collect(maps.Keys(values)), read: read, part: part}
}

// in returns the part from its ConfigMap.
func (p part) in(cm *corev1.ConfigMap) ([]byte, error) {
	values := valuesOf(cm)
	if p.Key == "" && len(values) != 1 {
		return nil, fmt.Errorf("it has %d keys: leave one, or say in the index which one it is", len(values))
	}
	for key, value := range values {
		if p.Key == "" || p.Key == key {
			return value, nil
		}
	}
	return nil, fmt.Errorf("it has no key %s", p.Key)
}

func valuesOf(cm *corev1.ConfigMap) map[string][]byte {
	values := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, value := range cm.Data {
		values[key] = []byte(value)
	}
	maps.Copy(values, cm.BinaryData)
	return values
}

// box is the content of a ConfigMap or a directory.
type box struct {
	names []string
	// read returns the content of a name, or at least most+1 bytes of it.
	read func(name string, most int64) ([]byte, error)
	part func(p part, most int64) ([]byte, error)
	// file opens a name; nil, also as its result: use read.
	file func(name string) (*os.File, error)
	// stored are files that are in the store already.
	stored map[string]*File
	// beside: the parts are under names of the box.
	beside bool
}

// index returns the only index, or nil for none.
func (b box) index() (*index, error) {
	names := slices.DeleteFunc(slices.Clone(b.names), func(name string) bool { return !isIndex(name) })
	if len(names) != 1 {
		return nil, nil // chooseKeys reports several
	}
	data, err := b.read(names[0], maxIndex)
	if err != nil {
		return nil, err
	}
	return decodeIndex(names[0], data)
}

// open returns the bundle by the rules of the package comment.
func (b box) open(limits Limits) (Bundle, error) {
	x, err := b.index()
	if err != nil {
		return Bundle{}, err
	}
	names := b.names
	if x != nil && b.beside {
		names = x.without(names)
	}
	k, err := chooseKeys(names)
	if err != nil {
		return Bundle{}, err
	}
	config, err := b.small(k.config, limits.MaxConfig, ReasonConfigTooLarge)
	if err != nil {
		return Bundle{}, err
	}
	signature, err := b.small(k.signature, maxSignature, ReasonSignatureTooLarge)
	if err != nil {
		return Bundle{}, err
	}
	bundle, err := b.module(k.module, x, limits)
	if quota.Short(err) {
		return Bundle{}, failed(ReasonModuleNotKept, "%s is not kept: %w", k.module, err)
	}
	if err != nil {
		return Bundle{}, err
	}
	bundle.Config, bundle.Signature = config, signature
	bundle.Revision, err = revision(bundle)
	return bundle, err
}

// small returns the content of a name, and nil only for no name.
func (b box) small(name string, most int64, tooLarge string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	data, err := b.read(name, most)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, failed(tooLarge, "%s is larger than %d bytes", name, most)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// module returns a bundle with only the module of that name, decompressed.
func (b box) module(name string, x *index, limits Limits) (Bundle, error) {
	if x != nil {
		stored, err := x.join(b.part, limits)
		if err != nil {
			return Bundle{}, err
		}
		limits.MaxCompressed = limits.MaxModule // that limit was checked for each part
		return decompress(name, stored, limits)
	}
	most := limits.MaxCompressed
	if compressionOf(name) == "" {
		most = limits.MaxModule
		bundle, err := b.large(name, limits)
		if err != nil {
			return Bundle{}, err
		}
		if bundle != nil {
			return *bundle, nil
		}
	}
	stored, err := b.read(name, most)
	if err != nil {
		return Bundle{}, err
	}
	return decompress(name, stored, limits)
}

// large moves a large file into the store as it is; nil without a store, or for a small
// file.
func (b box) large(name string, limits Limits) (_ *Bundle, err error) {
	if f := b.stored[name]; f != nil {
		return &Bundle{File: f}, nil
	}
	if b.file == nil || limits.Store == nil {
		return nil, nil
	}
	f, err := b.file(name)
	if err != nil {
		return &Bundle{}, err
	}
	if f == nil {
		return nil, nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || info.Size() < largeModule {
		return nil, nil // read reports the error
	}
	file, err := limits.Store.Put(f, limits.MaxModule)
	if errors.Is(err, errTooLarge) {
		err = tooLarge(name, limits)
	}
	return &Bundle{File: file}, err
}
