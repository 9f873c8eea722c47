package store

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of a store. The API server takes a ConfigMap of up to 1 MiB.
const (
	// MaxTotalBytes bounds the values and twice the keys: the API server keeps
	// every key a second time, in the object's managedFields.
	MaxTotalBytes = 900 << 10
	// MaxValueBytes bounds one value.
	MaxValueBytes = 256 << 10
	// MaxEntries bounds the number of entries.
	MaxEntries = 4096
)

// entries returns the entries with the prefix, sorted by key.
func entries(cm *corev1.ConfigMap, prefix string) []*abi.StoreEntry {
	if cm == nil {
		return nil
	}
	var out []*abi.StoreEntry
	for key, value := range cm.Data {
		if strings.HasPrefix(key, prefix) {
			out = append(out, &abi.StoreEntry{Key: key, Value: []byte(value)})
		}
	}
	for key, value := range cm.BinaryData {
		if strings.HasPrefix(key, prefix) {
			out = append(out, &abi.StoreEntry{Key: key, Value: slices.Clone(value)})
		}
	}
	slices.SortFunc(out, func(a, b *abi.StoreEntry) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// validate checks a write as far as possible without the store.
func validate(write *abi.StoreWrite) error {
	if write == nil || write.Version == "" {
		return invalid("write.version is empty: read the store first and pass its version")
	}
	touched := make(map[string]bool, len(write.Put)+len(write.Delete))
	for _, e := range write.Put {
		if size := len(e.Value); size > MaxValueBytes {
			return tooLarge("the value of key %s has %d bytes, the limit is %d", text.Quote(e.Key), size, MaxValueBytes)
		}
		if err := validateKey(e.Key, touched); err != nil {
			return err
		}
	}
	for _, key := range write.Delete {
		if err := validateKey(key, touched); err != nil {
			return err
		}
	}
	return nil
}

func validateKey(key string, touched map[string]bool) error {
	if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
		return invalid("key %s: %s", text.Quote(key), strings.Join(problems, "; "))
	}
	if touched[key] {
		return invalid("key %q occurs twice in one write", key)
	}
	touched[key] = true
	return nil
}

// apply makes the changes of a valid write to cm.
func apply(cm *corev1.ConfigMap, write *abi.StoreWrite) {
	for _, key := range write.Delete {
		remove(cm, key)
	}
	for _, e := range write.Put {
		remove(cm, e.Key)
		if readable(e.Value) {
			if cm.Data == nil {
				cm.Data = map[string]string{}
			}
			cm.Data[e.Key] = string(e.Value)
			continue
		}
		if cm.BinaryData == nil {
			cm.BinaryData = map[string][]byte{}
		}
		cm.BinaryData[e.Key] = slices.Clone(e.Value)
	}
}

func remove(cm *corev1.ConfigMap, key string) {
	delete(cm.Data, key)
	delete(cm.BinaryData, key)
}

// readable reports whether kubectl should show the value as text.
func readable(value []byte) bool {
	return utf8.Valid(value) && !bytes.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

func checkSize(cm *corev1.ConfigMap) error {
	if n := len(cm.Data) + len(cm.BinaryData); n > MaxEntries {
		return tooLarge("the store would have %d entries, the limit is %d", n, MaxEntries)
	}
	total := 0
	for key, value := range cm.Data {
		total += 2*len(key) + len(value)
	}
	for key, value := range cm.BinaryData {
		total += 2*len(key) + len(value)
	}
	if total > MaxTotalBytes {
		return tooLarge("the store would have %d bytes (values and twice the keys), the limit is %d", total, MaxTotalBytes)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf(format, args...)}
}

func retryAfter(seconds int) time.Duration { return time.Duration(max(seconds, 1)) * time.Second }
