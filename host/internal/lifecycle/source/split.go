package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	// partSize is the size of the parts that Split makes, in bytes: in base64, and with
	// kubectl's additions, still below the 1 MiB that several tools accept.
	partSize = 700 << 10
	// maxConfigMap is the API server's limit for the values of a ConfigMap, in bytes.
	maxConfigMap = mebibyte
)

// SplitOptions are the other contents of Split's ConfigMaps.
type SplitOptions struct {
	// Module is the NAME of the key NAME.wasm.zst. Default "provider".
	Module string
	// Config is the provider's configuration. Nil means none.
	Config []byte
	// ConfigKey is its key. Default cloud.conf.
	ConfigKey string
	// Signature is the module's signature as cosign writes it: base64, or a
	// bundle in JSON; at most 64 KiB. Nil means none.
	Signature []byte
	// PartNames are names for the parts' ConfigMaps, used in their order; then the caller must
	// see to it that no index in use names them. By default a name contains a part of the
	// module's digest.
	PartNames []string
}

// Split returns the ConfigMaps for a module, compressed with zstd: only the one of that name
// if the module fits into it, else those of the parts, of at most 700 KiB each, and last the
// one with the index, the configuration and the signature. Applied in that order, they never
// disturb the serving module: the parts of the last module have other names. They must be
// applied on the server's side; they are too large for the annotation of kubectl apply. The
// errors say what does not fit.
func Split(module []byte, name, namespace string, o SplitOptions) ([]corev1.ConfigMap, error) {
	o = o.withDefaults()
	last := newConfigMap(name, namespace)
	if err := o.fill(&last, name); err != nil {
		return nil, err
	}
	if len(module) == 0 {
		return nil, errors.New("the module is empty")
	}
	parts, err := Packing{Bytes: partSize, Parts: maxParts, Level: zstd.SpeedBestCompression}.Pack(module)
	switch {
	case errors.Is(err, ErrNoRoom):
		return nil, fmt.Errorf("after compression the module has more than %d parts of %d bytes: make it smaller", maxParts, partSize)
	case err != nil:
		return nil, err
	}
	key := o.Module + ".wasm.zst"
	if len(parts) == 1 && size(last)+len(parts[0]) <= maxConfigMap {
		last.BinaryData[key] = parts[0]
		return []corev1.ConfigMap{last}, nil
	}
	maps, x, err := makeParts(parts, name, namespace, o.PartNames)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("encode the index: %w", err)
	}
	last.Data[key+partsSuffix] = string(text)
	if n := size(last); n > maxConfigMap {
		return nil, fmt.Errorf("the configuration, the signature and the index have %d bytes, which are more than the %d of a ConfigMap: make the configuration smaller", n, maxConfigMap)
	}
	return append(maps, last), nil
}

func (o SplitOptions) withDefaults() SplitOptions {
	if o.Module == "" {
		o.Module = "provider"
	}
	if o.ConfigKey == "" {
		o.ConfigKey = "cloud.conf"
	}
	return o
}

// fill adds the configuration and the signature to a ConfigMap.
func (o SplitOptions) fill(cm *corev1.ConfigMap, name string) error {
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("%s is not the name of a ConfigMap", text.Quote(name))
	case len(validation.IsConfigMapKey(o.Module+".wasm.sigstore.json")) > 0:
		return fmt.Errorf("%s is not the name of a module: use letters, digits, dots, hyphens and underscores", text.Quote(o.Module))
	case !isConfig(o.ConfigKey) || len(validation.IsConfigMapKey(o.ConfigKey)) > 0:
		return fmt.Errorf("%s is not the key of a configuration: use cloud.conf or config.EXTENSION", text.Quote(o.ConfigKey))
	case len(o.Signature) > maxSignature:
		return fmt.Errorf("the signature has more than %d bytes", maxSignature)
	case len(o.Config) > maxConfigMap:
		return fmt.Errorf("the configuration has more than %d bytes", maxConfigMap)
	}
	if o.Config != nil {
		put(cm, o.ConfigKey, o.Config)
	}
	if o.Signature != nil {
		put(cm, o.Module+".wasm"+signatureSuffixOf(o.Signature), o.Signature)
	}
	return nil
}

// signatureSuffixOf distinguishes a bundle, a JSON object, from base64.
func signatureSuffixOf(signature []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(signature), []byte("{")) {
		return signatureBundleSuffix
	}
	return signatureSuffix
}

// put keeps text readable.
func put(cm *corev1.ConfigMap, key string, value []byte) {
	if utf8.Valid(value) {
		cm.Data[key] = string(value)
	} else {
		cm.BinaryData[key] = value
	}
}

func newConfigMap(name, namespace string) corev1.ConfigMap {
	return corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Data:       map[string]string{},
		BinaryData: map[string][]byte{},
	}
}

// size is the size as the API server counts it.
func size(cm corev1.ConfigMap) int {
	n := 0
	for _, value := range valuesOf(&cm) {
		n += len(value)
	}
	return n
}

// makeParts returns the ConfigMaps of the parts, and the index to them.
func makeParts(pieces [][]byte, name, namespace string, names []string) ([]corev1.ConfigMap, index, error) {
	x := index{Digest: digestOf(pieces...)}
	if names == nil {
		for i := range pieces {
			names = append(names, fmt.Sprintf("%s-%s-%d", name, x.Digest[len("sha256:"):][:10], i))
		}
	}
	if len(names) < len(pieces) {
		return nil, x, fmt.Errorf("the module needs %d parts of %d bytes, and there are names for %d only: make it smaller", len(pieces), partSize, len(names))
	}
	maps := make([]corev1.ConfigMap, len(pieces))
	for i, piece := range pieces {
		maps[i] = newConfigMap(names[i], namespace)
		key := names[i] + partSuffix
		maps[i].BinaryData[key] = piece
		x.Parts = append(x.Parts, part{ConfigMap: names[i], Key: key, Digest: digestOf(piece)})
	}
	if err := x.validate(); err != nil {
		return nil, x, fmt.Errorf("the names of the parts do not do: %w", err)
	}
	return maps, x, nil
}
