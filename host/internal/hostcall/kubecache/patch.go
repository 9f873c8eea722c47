package kubecache

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	// maxPatchKeys and maxPatchBytes bound one patch.
	maxPatchKeys  = 64
	maxPatchBytes = 16 << 10
	// ownDomain is the domain of keys that control the manager.
	ownDomain = "wasm-ccm.dev"
	// anyName matches every name of a domain, in a grantable key.
	anyName = "/*"
)

// kubernetesDomains are the domains of keys that control upstream's loops, kube-proxy, the
// scheduler and kubelets, more of them with each release: whether a Node may be deleted or
// gets traffic, who serves a Service.
var kubernetesDomains = []string{"kubernetes.io", "k8s.io", "x-k8s.io"}

// harmless are the grantable keys of these domains, and why.
var harmless = map[string]string{
	"kubernetes.io/description": "a text for people, read by no component",
}

// CheckKey says why a key, or all keys of a domain (example.com/*), cannot be granted.
func CheckKey(granted string) error {
	domain, all := strings.CutSuffix(granted, anyName)
	if all {
		granted = domain + "/x"
	}
	if wrong := validation.IsQualifiedName(granted); len(wrong) > 0 {
		return fmt.Errorf("must be a key, or a domain with %s: %s", anyName, strings.Join(wrong, "; "))
	}
	switch domain, _, _ = strings.Cut(granted, "/"); {
	case within(domain, ownDomain):
		return fmt.Errorf("keys of %s are the manager's own", ownDomain)
	case harmless[granted] == "" && kubernetesOwn(domain):
		return fmt.Errorf("keys of %s control Kubernetes itself, for example traffic; only %s of them can be granted: use a key of your own domain",
			domain, strings.Join(slices.Sorted(maps.Keys(harmless)), ", "))
	}
	return nil
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

func kubernetesOwn(domain string) bool {
	return slices.ContainsFunc(kubernetesDomains, func(own string) bool { return within(domain, own) })
}

// mayChange reports whether a key is granted.
func mayChange(granted []string, key string) bool {
	// Invariant G10 (host/SECURITY.md): no grant includes these keys.
	if CheckKey(key) != nil || strings.HasSuffix(key, anyName) {
		return false
	}
	domain, _, qualified := strings.Cut(key, "/")
	return slices.Contains(granted, key) || qualified && slices.Contains(granted, domain+anyName)
}

// Patch is a granted change of an object.
type Patch struct {
	kind            string
	namespace, name string
	data            []byte
}

// merge is a merge patch of metadata. A nil removes a key.
type merge struct {
	Metadata metadata `json:"metadata"`
}

type metadata struct {
	UID         types.UID          `json:"uid"`
	Annotations map[string]*string `json:"annotations,omitempty"`
	Labels      map[string]*string `json:"labels,omitempty"`
}

// Patch checks a request with a patch against the grant and the op's object, which may be
// nil. Errors are an *abi.Error.
func (v *View) Patch(request *abi.KubeRequest, own *corev1.ObjectReference) (*Patch, error) {
	patch := request.Patch
	if patch == nil {
		return nil, invalid("the request has no patch")
	}
	if err := checkOwn(request, own); err != nil {
		return nil, err
	}
	if n := len(patch.Annotations) + len(patch.RemoveAnnotations) + len(patch.Labels) + len(patch.RemoveLabels); n == 0 || n > maxPatchKeys {
		return nil, invalid("the patch has %d keys, must have from 1 to %d", n, maxPatchKeys)
	}
	m := merge{metadata{UID: own.UID}}
	var err error
	if m.Metadata.Annotations, err = v.changes("annotations", v.grant.Annotations, patch.Annotations, patch.RemoveAnnotations); err != nil {
		return nil, err
	}
	if m.Metadata.Labels, err = v.changes("labels", v.grant.Labels, patch.Labels, patch.RemoveLabels); err != nil {
		return nil, err
	}
	for key, value := range patch.Labels {
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			return nil, invalid("the value of the label %s: %s", key, wrong[0])
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(data) > maxPatchBytes {
		return nil, &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf("the patch has %d bytes, the limit is %d", len(data), maxPatchBytes)}
	}
	return &Patch{own.Kind, own.Namespace, own.Name, data}, nil
}

// checkOwn requires that the request is about the op's object.
func checkOwn(request *abi.KubeRequest, own *corev1.ObjectReference) error {
	// Invariant G8 (host/SECURITY.md): a request cannot name another object. Without a UID the
	// object's name may be the guest's own choice.
	if own == nil || own.UID == "" || own.Kind != "Node" && own.Kind != "Service" {
		return &abi.Error{Code: abi.CodeNotFound, Message: "this op is about no Node and no Service that could be changed"}
	}
	resource := map[string]string{"Node": Nodes, "Service": Services}[own.Kind]
	if request.Resource != resource || request.Namespace != own.Namespace || request.Name != own.Name {
		return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("only the object of the op can be changed, which is %s", target{resource, own.Namespace, own.Name})}
	}
	if uid := request.Patch.Uid; uid != "" && uid != string(own.UID) {
		return &abi.Error{Code: abi.CodeConflict, Message: "the object of the op has another UID: it was made again"}
	}
	if len(request.Cursor) > 0 || request.Limit > 0 {
		return invalid("a patch has no cursor and no limit: leave them empty")
	}
	return nil
}

// changes are values by key, nil for removed ones.
func (v *View) changes(what string, granted []string, set map[string]string, removed []string) (map[string]*string, error) {
	all := map[string]*string{}
	for key, value := range set {
		all[key] = &value
	}
	for _, key := range removed {
		if _, twice := all[key]; twice {
			return nil, invalid("the key %s is in the patch twice", text.Quote(key))
		}
		all[key] = nil
	}
	for key := range all {
		if !mayChange(granted, key) {
			return nil, v.refuse("a change of "+what+" "+text.Quote(key), advise(what, key))
		}
	}
	return all, nil
}

// Clients are those of the controllers that change Nodes and Services anyway.
type Clients struct {
	Nodes, Services func() (kubernetes.Interface, error)
}

// Apply sends the patch: a Service's through its subresource status, as upstream's
// controller does, so that it needs no further right. Errors are an *abi.Error.
func (p *Patch) Apply(ctx context.Context, clients Clients) error {
	choose, send := clients.Nodes, p.patchNode
	if p.kind == "Service" {
		choose, send = clients.Services, p.patchService
	}
	client, err := choose()
	if err == nil {
		err = send(ctx, client)
	}
	return p.failure(err)
}

func (p *Patch) patchNode(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Nodes().Patch(ctx, p.name, types.MergePatchType, p.data, metav1.PatchOptions{})
	return err
}

func (p *Patch) patchService(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Services(p.namespace).Patch(ctx, p.name, types.MergePatchType, p.data, metav1.PatchOptions{}, "status")
	return err
}

// failure maps an error of the API server to a code for guests.
func (p *Patch) failure(err error) error {
	code := abi.CodeUnavailable
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		code = abi.CodeNotFound
	case apierrors.IsConflict(err), apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid"):
		code = abi.CodeConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		code = abi.CodeInvalid
	case apierrors.IsForbidden(err):
		code = abi.CodeDenied
	}
	return &abi.Error{Code: code, Message: fmt.Sprintf("changing %s %s: %v", p.kind, p.name, err)}
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func advise(what, key string) string {
	if err := CheckKey(key); err != nil {
		return "it cannot be granted: " + err.Error()
	}
	return "add it to providers[].kube." + what + " of the HostConfiguration"
}
