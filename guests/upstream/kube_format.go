package upstream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
)

// format writes objects in the form that a client reads. The host's are in
// protobuf and without their kind.
type format interface {
	contentType() string
	object(k *kind, raw []byte) ([]byte, error)
	list(k *kind, version string, items [][]byte) ([]byte, error)
	event(k *kind, event string, raw []byte) ([]byte, error)
}

// formatFor is protobuf if the client takes it, to avoid decoding twice.
func formatFor(accept string) format {
	for media := range strings.SplitSeq(accept, ",") {
		if strings.TrimSpace(media) == asProtobuf || strings.HasPrefix(strings.TrimSpace(media), asProtobuf+";stream=") {
			return inProtobuf{}
		}
	}
	return inJSON{}
}

// inProtobuf is Kubernetes' protobuf: the bytes of the host in an envelope.
type inProtobuf struct{}

func (inProtobuf) contentType() string { return asProtobuf }

func (inProtobuf) object(k *kind, raw []byte) ([]byte, error) { return envelope(k, k.Kind, raw) }

// envelope is read by serializer/protobuf.
func envelope(k *kind, name string, raw []byte) ([]byte, error) {
	version := k.GroupVersion().String()
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: name}, Raw: raw}).Marshal()
	return append([]byte("k8s\x00"), data...), err
}

// list writes the fields 1 and 2 of all lists: metadata and items.
func (inProtobuf) list(k *kind, version string, items [][]byte) ([]byte, error) {
	meta, err := (&metav1.ListMeta{ResourceVersion: version}).Marshal()
	if err != nil {
		return nil, err
	}
	size := len(meta) + 16
	for _, item := range items {
		size += len(item) + 8
	}
	data := appendField(make([]byte, 0, size), 1, meta)
	for _, item := range items {
		data = appendField(data, 2, item)
	}
	return envelope(k, k.Kind+"List", data)
}

func appendField(data []byte, number byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(data, number<<3|2), uint64(len(value))), value...)
}

func (inProtobuf) event(k *kind, event string, raw []byte) ([]byte, error) {
	whole, err := envelope(k, k.Kind, raw)
	if err != nil {
		return nil, err
	}
	data, err := (&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: whole}}).Marshal()
	if err != nil {
		return nil, err
	}
	var frame bytes.Buffer
	_, err = protobuf.LengthDelimitedFramer.NewFrameWriter(&frame).Write(data)
	return frame.Bytes(), err
}

// inJSON is for clients that do not read protobuf.
type inJSON struct{}

func (inJSON) contentType() string { return asJSON }

func (inJSON) object(k *kind, raw []byte) ([]byte, error) {
	typed, err := k.typed(&abi.KubeObject{Object: raw})
	if err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return json.Marshal(typed)
}

func (f inJSON) list(k *kind, version string, items [][]byte) ([]byte, error) {
	all := make([]json.RawMessage, len(items))
	for i, item := range items {
		var err error
		if all[i], err = f.object(k, item); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{
		"kind": k.Kind + "List", "apiVersion": k.GroupVersion().String(), "metadata": metav1.ListMeta{ResourceVersion: version}, "items": all,
	})
}

func (f inJSON) event(k *kind, event string, raw []byte) ([]byte, error) {
	whole, err := f.object(k, raw)
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", event, whole), err
}
