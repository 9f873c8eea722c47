package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

// moduleConfigMap is the ConfigMap with a provider's module.
type moduleConfigMap struct {
	api             typedcorev1.ConfigMapInterface
	namespace, name string
}

func (m moduleConfigMap) String() string { return m.namespace + "/" + m.name }

// put replaces the module, and leaves the configuration. It creates a missing
// ConfigMap.
func (m moduleConfigMap) put(ctx context.Context, wasm []byte) error {
	suffix, data, err := packed(wasm)
	if err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, err := m.api.Get(ctx, m.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.name}, BinaryData: map[string][]byte{"provider.wasm" + suffix: data}}
			_, err = m.api.Create(ctx, cm, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		if err := replaceModule(cm, suffix, data); err != nil {
			return err
		}
		_, err = m.api.Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", m, err)
	}
	return nil
}

// packed is a module in the form of a ConfigMap, with the suffix of its key.
func packed(wasm []byte) (suffix string, data []byte, err error) {
	if len(wasm) <= maxConfigMap {
		return "", wasm, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(wasm); err != nil {
		return "", nil, err
	}
	if err := w.Close(); err != nil {
		return "", nil, err
	}
	if b.Len() > maxConfigMap {
		return "", nil, fmt.Errorf("the module has %d KiB by gzip, more than a ConfigMap holds: ccmctl push it to a registry, or ccmctl split it", b.Len()>>10)
	}
	return ".gz", b.Bytes(), nil
}

// replaceModule replaces the module in a ConfigMap.
func replaceModule(cm *corev1.ConfigMap, suffix string, data []byte) error {
	name := "provider.wasm"
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		switch module, _, found := strings.Cut(key, ".wasm"); {
		case strings.HasSuffix(key, ".part") || strings.HasSuffix(key, ".sig"):
			return fmt.Errorf("it has the key %s: a signed or split module is none to develop with; take a ConfigMap of its own (--configmap)", key)
		case found:
			name = module + ".wasm"
			delete(cm.BinaryData, key)
		}
	}
	for key := range cm.Data {
		if strings.HasSuffix(key, ".sig") || strings.HasSuffix(key, ".sigstore.json") || strings.HasSuffix(key, ".parts") {
			return fmt.Errorf("it has the key %s: a signed or split module is none to develop with; take a ConfigMap of its own (--configmap)", key)
		}
	}
	if cm.BinaryData == nil {
		cm.BinaryData = map[string][]byte{}
	}
	cm.BinaryData[name+suffix] = data
	return nil
}

// differences prints the manager's view of a module's changes: size, ops, and
// host functions.
func differences(say func(string, ...any), before, after []byte) {
	if before == nil {
		return
	}
	if bytes.Equal(before, after) {
		say("the module is the same as before")
		return
	}
	say("%+d bytes of %d", len(after)-len(before), len(after))
	old, now := promises(before), promises(after)
	for _, p := range now {
		if !slices.Contains(old, p) {
			say("+ %s", p)
		}
	}
	for _, p := range old {
		if !slices.Contains(now, p) {
			say("- %s", p)
		}
	}
}

// promises are the contents of a module's manifest and imports. Both modules were checked.
func promises(wasm []byte) (all []string) {
	m, err := readManifest(wasm)
	if err != nil {
		return nil
	}
	for _, op := range m.Ops {
		all = append(all, "op "+op)
	}
	for _, c := range m.Capabilities {
		all = append(all, "capability "+c)
	}
	parsed, err := module.Parse(wasm)
	if err != nil {
		return all
	}
	for _, i := range parsed.Imports {
		if i.Module == abi.ImportModule {
			all = append(all, "import "+i.Name)
		}
	}
	return all
}
