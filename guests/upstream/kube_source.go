package upstream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// object is a typed object that the host's bytes can be read into.
type object interface {
	metav1.Object
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// kind is a kind of the capability kube.
type kind struct {
	schema.GroupVersionKind
	empty func() object
}

func schemaKind(name string) schema.GroupVersionKind { return v1.SchemeGroupVersion.WithKind(name) }

// kindOf is nil for a resource without the capability kube.
func kindOf(group, version, resource string) *kind {
	var k kind
	switch resource {
	case "nodes":
		k = kind{schemaKind("Node"), func() object { return &v1.Node{} }}
	case "services":
		k = kind{schemaKind("Service"), func() object { return &v1.Service{} }}
	case "configmaps":
		k = kind{schemaKind("ConfigMap"), func() object { return &v1.ConfigMap{} }}
	case "secrets":
		k = kind{schemaKind("Secret"), func() object { return &v1.Secret{} }}
	case "endpointslices":
		k = kind{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), func() object { return &discoveryv1.EndpointSlice{} }}
	}
	if k.empty == nil || k.Group != group || k.Version != version {
		return nil
	}
	return &k
}

// typed reads an object.
func (k *kind) typed(o *abi.KubeObject) (object, error) {
	out := k.empty()
	if err := out.Unmarshal(o.Object); err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", k.Kind, o.Namespace, o.Name, err)
	}
	return out, nil
}

// scope is what the host is asked for. An empty namespace or name means all.
type scope struct{ resource, namespace, name string }

// follow is the host's latest content of a scope.
type follow struct {
	sdk.KubeCache
	scope
	op      uint64 // of the latest question
	changes uint64 // the number of questions
	watches []*watch
}

// maxFollows bounds a provider's scopes.
const maxFollows = 256

// follow is called with the lock.
func (k *kube) follow(s scope) (*follow, error) {
	if f := k.follows[s]; f != nil {
		return f, nil
	}
	for other, f := range k.follows {
		if len(k.follows) < maxFollows {
			break
		}
		if f.watches = slices.DeleteFunc(f.watches, (*watch).ended); len(f.watches) == 0 {
			delete(k.follows, other)
		}
	}
	if len(k.follows) >= maxFollows {
		return nil, sdk.Error(abi.CodeTooLarge, fmt.Sprintf("upstream: there are watches of %d namespaces or names already", maxFollows))
	}
	f := &follow{KubeCache: sdk.KubeCache{Resource: s.resource, Namespace: s.namespace, Name: s.name}, scope: s}
	f.Changed = f.changed
	k.follows[s] = f
	return f, nil
}

func (f *follow) changed(before, now *abi.KubeObject) {
	f.changes++
	for _, w := range f.watches {
		w.changed(before, now)
	}
}

// firstVersion is greater than any object's version: a client that continues
// from the version of an object must not seem to have a list.
const firstVersion = 1 << 62

// version is the resourceVersion of a list.
func (f *follow) version() string { return strconv.FormatUint(firstVersion+f.changes, 10) }

// sync asks the host for changes, for all watches. It is called with the lock,
// and waits for an op.
func (k *kube) sync(ctx context.Context, f *follow) error {
	err := k.bridge.await(ctx, func(op *sdk.Op, _ string) error {
		_, err := f.Sync(op)
		return err
	})
	f.op = k.ops
	if err == nil {
		return nil
	}
	if sdk.CodeOf(err) == abi.CodeDenied && f.namespace == "" && f.name == "" {
		k.refused[f.resource] = true
	}
	if f.All() == nil { // nothing was ever read: perhaps it is not granted
		delete(k.follows, f.scope)
	}
	return err
}

// wide is the existing follow that covers a scope, nil if there is none. It is
// called with the lock.
func (k *kube) wide(s scope) *follow {
	for _, wider := range []scope{{s.resource, "", ""}, {s.resource, s.namespace, ""}, s} {
		if f := k.follows[wider]; f != nil {
			return f
		}
	}
	return nil
}

// object reads one object, nil if there is none.
func (k *kube) object(ctx context.Context, s scope) (*abi.KubeObject, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.wide(s); f != nil {
		if err := k.sync(ctx, f); err != nil {
			return nil, err
		}
		return f.Get(s.namespace, s.name), nil
	}
	one := sdk.KubeCache{Resource: s.resource, Namespace: s.namespace, Name: s.name}
	err := k.bridge.await(ctx, func(op *sdk.Op, _ string) error {
		_, err := one.Sync(op)
		return err
	})
	return one.Get(s.namespace, s.name), err
}

func (k *kube) get(r *http.Request, q *query) (*http.Response, error) {
	o, err := k.object(r.Context(), q.scope)
	if err != nil {
		return k.failed(r, err)
	}
	if o == nil {
		return refuse(r, http.StatusNotFound, metav1.StatusReasonNotFound, q.resource+" "+q.name+" not found")
	}
	data, err := q.format.object(q.kind, o.Object)
	if err != nil {
		return nil, err
	}
	return reply(r, http.StatusOK, q.format.contentType(), data), nil
}

func (k *kube) list(r *http.Request, q *query) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, err := k.follow(q.scope)
	if err == nil {
		err = k.sync(r.Context(), f)
	}
	if err != nil {
		return k.failed(r, err)
	}
	var items [][]byte
	for _, o := range f.All() {
		ok, err := q.matches(o)
		if err != nil {
			return nil, err
		}
		if ok {
			items = append(items, o.Object)
		}
	}
	data, err := q.format.list(q.kind, f.version(), items)
	if err != nil {
		return nil, err
	}
	return reply(r, http.StatusOK, q.format.contentType(), data), nil
}
