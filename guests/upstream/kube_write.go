package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// change makes a patch of the capability kube from a PATCH or PUT that only
// changes annotations and labels of the op's object.
func (k *kube) change(r *http.Request, s scope, known *kind) (*http.Response, error) {
	if s.resource != "nodes" && s.resource != "services" || s.name == "" {
		return k.forbid(r, s.resource, onlyMetadata)
	}
	var p *abi.KubePatch
	var err error
	if r.Method == http.MethodPut {
		p, err = k.difference(r, s, known)
	} else {
		p, err = k.patchOf(r, s, known)
	}
	if sdk.CodeOf(err) == abi.CodeNotImplemented { // in no way
		return k.forbid(r, s.resource, err.Error())
	}
	if err != nil {
		return k.failed(r, err)
	}
	if empty(p) {
		return k.changed(r, s, known, p)
	}
	err = k.bridge.await(r.Context(), func(op *sdk.Op, about string) error {
		if own := known.Kind + "/" + s.namespace + "/" + s.name; own != about {
			return sdk.Error(abi.CodeNotImplemented, fmt.Sprintf("only the object of the op can be changed, which is %q (empty: none)", about))
		}
		_, err := op.Kube(&abi.KubeRequest{Resource: s.resource, Namespace: s.namespace, Name: s.name, Patch: p})
		return err
	})
	if sdk.CodeOf(err) == abi.CodeNotImplemented {
		return k.forbid(r, s.resource+" of others", err.Error())
	}
	if err != nil {
		return k.failed(r, err)
	}
	return k.changed(r, s, known, p)
}

func empty(p *abi.KubePatch) bool {
	return len(p.Annotations)+len(p.RemoveAnnotations)+len(p.Labels)+len(p.RemoveLabels) == 0
}

// notMetadata is the error for a change that no grant allows.
func notMetadata(format string, args ...any) error {
	return sdk.Error(abi.CodeNotImplemented, fmt.Sprintf(format, args...)+": "+onlyMetadata)
}

// difference is the change that a PUT makes. The object must be readable.
func (k *kube) difference(r *http.Request, s scope, known *kind) (*abi.KubePatch, error) {
	_, decoded, err := decode(r)
	if err != nil {
		return nil, err
	}
	wanted, ok := decoded.(object)
	if !ok || wanted.GetName() != s.name || wanted.GetNamespace() != s.namespace {
		return nil, sdk.Invalidf("the object is not the one of the URL")
	}
	now, err := k.now(r, s, known)
	if err != nil {
		return nil, err
	}
	if v := wanted.GetResourceVersion(); v != "" && v != now.GetResourceVersion() {
		return nil, sdk.Error(abi.CodeConflict, "the object has changed: read it again")
	}
	p := &abi.KubePatch{Uid: string(now.GetUID())}
	p.Annotations, p.RemoveAnnotations = compare(now.GetAnnotations(), wanted.GetAnnotations())
	p.Labels, p.RemoveLabels = compare(now.GetLabels(), wanted.GetLabels())
	now.SetAnnotations(wanted.GetAnnotations())
	now.SetLabels(wanted.GetLabels())
	now.SetResourceVersion(wanted.GetResourceVersion())
	wanted.SetManagedFields(nil)
	now.GetObjectKind().SetGroupVersionKind(wanted.GetObjectKind().GroupVersionKind())
	if !equality.Semantic.DeepEqual(now, wanted) {
		return nil, notMetadata("the update changes more than annotations and labels")
	}
	return p, nil
}

// now is the object in the cluster.
func (k *kube) now(r *http.Request, s scope, known *kind) (object, error) {
	o, err := k.object(r.Context(), s)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, sdk.Error(abi.CodeNotFound, s.resource+" "+s.name+" not found")
	}
	return known.typed(o)
}

func compare(before, after map[string]string) (set map[string]string, removed []string) {
	set = map[string]string{}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			set[key] = value
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			removed = append(removed, key)
		}
	}
	slices.Sort(removed)
	return set, removed
}

// patchOf reads a PATCH.
func (k *kube) patchOf(r *http.Request, s scope, known *kind) (*abi.KubePatch, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, invalid(err)
	}
	switch types.PatchType(media) {
	case types.MergePatchType, types.StrategicMergePatchType:
		p, version, err := mergePatch(body, s)
		if err == nil && version != "" {
			err = k.unchanged(r, s, known, version)
		}
		return p, err
	case types.JSONPatchType:
		return jsonPatch(body)
	}
	return nil, notMetadata("a patch of the type %s", media)
}

// unchanged returns an error if the object has another version.
func (k *kube) unchanged(r *http.Request, s scope, known *kind, version string) error {
	now, err := k.now(r, s, known)
	if err == nil && now.GetResourceVersion() != version {
		err = sdk.Error(abi.CodeConflict, "the object has changed: read it again")
	}
	return err
}

// mergePatch reads a merge patch, or a strategic one, of metadata.
func mergePatch(body []byte, s scope) (p *abi.KubePatch, version string, err error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, "", invalid(err)
	}
	for field := range whole {
		if field != "metadata" && field != "kind" && field != "apiVersion" {
			return nil, "", notMetadata("the patch changes %s", field)
		}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(orNull(whole["metadata"]), &fields); err != nil {
		return nil, "", invalid(err)
	}
	p = &abi.KubePatch{}
	for field, value := range fields {
		if err == nil {
			version, err = mergeField(p, s, field, value, version)
		}
	}
	return p, version, err
}

func orNull(data json.RawMessage) []byte {
	if data == nil {
		return []byte("null")
	}
	return data
}

func mergeField(p *abi.KubePatch, s scope, field string, value json.RawMessage, version string) (string, error) {
	switch field {
	case "annotations", "labels":
		var entries map[string]*string
		if err := json.Unmarshal(value, &entries); err != nil || string(value) == "null" {
			return version, notMetadata("the patch changes %s as a whole", field)
		}
		return version, setAll(p, field, entries)
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return version, notMetadata("the patch changes metadata.%s", field)
	}
	switch {
	case field == "uid":
		p.Uid = text
	case field == "resourceVersion":
		version = text
	case field == "name" && text == s.name, field == "namespace" && text == s.namespace:
	default:
		return version, notMetadata("the patch changes metadata.%s", field)
	}
	return version, nil
}

func setAll(p *abi.KubePatch, field string, entries map[string]*string) error {
	for key, value := range entries {
		if strings.HasPrefix(key, "$") { // a directive of strategic patches
			return notMetadata("the patch has %s", key)
		}
		set(p, field, key, value)
	}
	return nil
}

// set puts one key into a patch; a nil value removes it.
func set(p *abi.KubePatch, field, key string, value *string) {
	values, removed := &p.Annotations, &p.RemoveAnnotations
	if field == "labels" {
		values, removed = &p.Labels, &p.RemoveLabels
	}
	*removed = slices.DeleteFunc(*removed, func(k string) bool { return k == key })
	delete(*values, key)
	if value == nil {
		*removed = append(*removed, key)
		return
	}
	if *values == nil {
		*values = map[string]string{}
	}
	(*values)[key] = *value
}

// jsonPatch reads a patch that adds, replaces and removes single keys.
func jsonPatch(body []byte) (*abi.KubePatch, error) {
	var steps []struct {
		Op, Path string
		Value    *string
	}
	if err := json.Unmarshal(body, &steps); err != nil {
		return nil, notMetadata("the patch does not only have strings: %v", err)
	}
	p := &abi.KubePatch{}
	for _, step := range steps {
		rest, ok := strings.CutPrefix(step.Path, "/metadata/")
		field, key, found := strings.Cut(rest, "/")
		removes := step.Op == "remove"
		if !ok || !found || field != "annotations" && field != "labels" || strings.Contains(key, "/") ||
			!removes && (step.Op != "add" && step.Op != "replace" || step.Value == nil) {
			return nil, notMetadata("the patch has %s of %s", step.Op, step.Path)
		}
		if removes {
			step.Value = nil
		}
		set(p, field, strings.NewReplacer("~1", "/", "~0", "~").Replace(key), step.Value)
	}
	return p, nil
}

// changed answers with the patched object: the last read, if any, with the
// patch's changes.
func (k *kube) changed(r *http.Request, s scope, known *kind, p *abi.KubePatch) (*http.Response, error) {
	now := known.empty()
	k.mu.Lock()
	if f := k.wide(s); f != nil && f.Get(s.namespace, s.name) != nil {
		if typed, err := known.typed(f.Get(s.namespace, s.name)); err == nil {
			now = typed
		}
	}
	k.mu.Unlock()
	now.SetNamespace(s.namespace)
	now.SetName(s.name)
	now.SetAnnotations(merged(now.GetAnnotations(), p.Annotations, p.RemoveAnnotations))
	now.SetLabels(merged(now.GetLabels(), p.Labels, p.RemoveLabels))
	raw, err := now.Marshal()
	if err != nil {
		return nil, err
	}
	format := formatFor(r.Header.Get("Accept"))
	data, err := format.object(known, raw)
	if err != nil {
		return nil, err
	}
	return reply(r, http.StatusOK, format.contentType(), data), nil
}

func merged(values, more map[string]string, removed []string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, values)
	maps.Copy(out, more)
	for _, key := range removed {
		delete(out, key)
	}
	return out
}
