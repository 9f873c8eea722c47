package upstream

import (
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// query is a client's question.
type query struct {
	scope
	kind   *kind
	format format
	labels labels.Selector
	fields fields.Selector
}

// parsePath reads /api/VERSION/... and /apis/GROUP/VERSION/.... rest follows
// the object: a subresource.
func parsePath(path string) (s scope, k *kind, rest string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group, version string
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return scope{}, nil, ""
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		s.namespace, parts = parts[1], parts[2:]
	}
	s.resource = parts[0]
	if len(parts) > 1 {
		s.name = parts[1]
		rest = strings.Join(parts[2:], "/")
	}
	return s, kindOf(group, version, s.resource), rest
}

// newQuery reads a request's selectors. A selected name or namespace narrows
// the question to the host, since a grant may cover only these.
func newQuery(r *http.Request, s scope, k *kind) (*query, error) {
	q := &query{scope: s, kind: k, format: formatFor(r.Header.Get("Accept"))}
	var err error
	if q.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err != nil {
		return nil, invalid(err)
	}
	if q.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err != nil {
		return nil, invalid(err)
	}
	known := fieldsOf(k.empty())
	for _, requirement := range q.fields.Requirements() {
		if !known.Has(requirement.Field) {
			return nil, sdk.Invalidf("field label not supported: %s", requirement.Field)
		}
	}
	if name, ok := q.fields.RequiresExactMatch("metadata.name"); ok && q.name == "" {
		q.name = name
	}
	if namespace, ok := q.fields.RequiresExactMatch("metadata.namespace"); ok && q.namespace == "" && q.resource != "nodes" {
		q.namespace = namespace
	}
	return q, nil
}

func invalid(err error) error { return sdk.Invalidf("%v", err) }

// fieldsOf are the fields for field selectors.
func fieldsOf(o object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch o := o.(type) {
	case *v1.Node:
		set["spec.unschedulable"] = "false"
		if o.Spec.Unschedulable {
			set["spec.unschedulable"] = "true"
		}
	case *v1.Service:
		set["spec.clusterIP"], set["spec.type"] = o.Spec.ClusterIP, string(o.Spec.Type)
	case *v1.Secret:
		set["type"] = string(o.Type)
	}
	return set
}

// matches reports whether the selectors select an object; nil is one that does
// not exist.
func (q *query) matches(o *abi.KubeObject) (bool, error) {
	if o == nil {
		return false, nil
	}
	if q.labels.Empty() && q.fields.Empty() {
		return true, nil
	}
	typed, err := q.kind.typed(o)
	if err != nil {
		return false, err
	}
	return q.labels.Matches(labels.Set(typed.GetLabels())) && q.fields.Matches(fieldsOf(typed)), nil
}

// isTrue reads a parameter of a URL.
func isTrue(u *url.URL, name string) bool {
	value := u.Query().Get(name)
	return value == "true" || value == "1"
}
