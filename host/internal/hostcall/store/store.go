// Package store keeps the small durable state of a provider in a ConfigMap of its own, for
// providers whose cloud has no API for this. Two managers may run at the same time during a
// failover. So every read is live, and every write is a compare-and-swap by the ConfigMap's
// UID and resourceVersion.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// The marks of a store's ConfigMap.
const (
	// LabelManagedBy has the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "wasm-ccm"
	// LabelStore has the provider's name as its value. A ConfigMap without it
	// is never touched.
	LabelStore = "wasm-ccm.github.io/provider-store"
	// AnnotationDescription explains the ConfigMap to people.
	AnnotationDescription = "kubernetes.io/description"
)

// versionAbsent is the version of a store without a ConfigMap. It has no slash, so no
// UID/resourceVersion equals it.
const versionAbsent = "absent"

// Store is the store of one provider. It is safe for concurrent use.
type Store struct {
	configMaps corev1client.ConfigMapInterface
	key        types.NamespacedName
	provider   string
	// seen is the newest ConfigMap that this process has read or written. It saves the read
	// before a write based on that version; the API server refuses the write if the version is
	// outdated.
	seen atomic.Pointer[corev1.ConfigMap]
}

// Name returns the name of the ConfigMap of a provider's store.
func Name(provider string) string { return "wasm-ccm-store-" + provider }

// New returns the store of a provider (a DNS label) in the ConfigMap of that
// namespace and name. The ConfigMap is created by the first write.
func New(client corev1client.ConfigMapsGetter, namespace, name, provider string) *Store {
	return &Store{
		configMaps: client.ConfigMaps(namespace),
		key:        types.NamespacedName{Namespace: namespace, Name: name},
		provider:   provider,
	}
}

// Read returns the store's version and its entries whose keys have the prefix,
// sorted by key. The error is an *abi.Error.
func (s *Store) Read(ctx context.Context, prefix string) (*abi.StoreResponse, error) {
	cm, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	return &abi.StoreResponse{Version: version(cm), Entries: entries(cm, prefix)}, nil
}

// Write applies write as a whole, or not at all, and returns the new version without
// entries. The error is an *abi.Error; with abi.CodeConflict the store has changed since
// write.Version and the decision must be made anew. With abi.CodeUnavailable and
// abi.CodeDeadline the write may have happened.
func (s *Store) Write(ctx context.Context, write *abi.StoreWrite) (*abi.StoreResponse, error) {
	if err := validate(write); err != nil {
		return nil, err
	}
	cm, err := s.at(ctx, write.Version)
	if err != nil {
		return nil, err
	}
	next := s.blank()
	if cm != nil {
		next = cm.DeepCopy()
	}
	apply(next, write)
	if err := checkSize(next); err != nil {
		return nil, err
	}
	saved, err := s.save(ctx, next)
	if err != nil {
		return nil, err
	}
	s.seen.Store(saved)
	return &abi.StoreResponse{Version: version(saved)}, nil
}

// at returns the ConfigMap at a version, nil for the absent one.
func (s *Store) at(ctx context.Context, want string) (*corev1.ConfigMap, error) {
	if cm := s.seen.Load(); cm != nil && version(cm) == want {
		return cm, nil
	}
	cm, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	if version(cm) != want {
		return nil, s.conflict()
	}
	return cm, nil
}

// get reads the ConfigMap from the API server, nil if it does not exist.
func (s *Store) get(ctx context.Context) (*corev1.ConfigMap, error) {
	cm, err := s.configMaps.Get(ctx, s.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, s.apiError("get", err)
	}
	// Invariant G9 (host/SECURITY.md): a ConfigMap not made for this provider is never read.
	if err := s.checkOwner(cm); err != nil {
		return nil, err
	}
	s.seen.Store(cm)
	return cm, nil
}

// save creates or updates the ConfigMap. The object carries the UID and the resourceVersion
// of its read, which makes the update conditional.
func (s *Store) save(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if cm.UID == "" {
		saved, err := s.configMaps.Create(ctx, cm, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil, s.conflict()
		}
		if err != nil {
			return nil, s.apiError("create", err)
		}
		return saved, nil
	}
	// Invariant G9 (host/SECURITY.md): the object has the version that was read, so a later one is
	// not overwritten.
	saved, err := s.configMaps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, s.conflict()
	}
	if err != nil {
		return nil, s.apiError("update", err)
	}
	return saved, nil
}

func (s *Store) blank() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.key.Namespace,
		Name:      s.key.Name,
		Labels:    map[string]string{LabelManagedBy: ManagedBy, LabelStore: s.provider},
		Annotations: map[string]string{AnnotationDescription: "Durable state of the cloud provider " + s.provider +
			", e.g. which addresses are in use. Do not edit or delete it while the provider is in use: back it up with the cluster."},
	}}
}

func (s *Store) checkOwner(cm *corev1.ConfigMap) error {
	owner, marked := cm.Labels[LabelStore]
	if marked && owner == s.provider {
		return nil
	}
	why := fmt.Sprintf("it has no label %s", LabelStore)
	if marked {
		why = fmt.Sprintf("its label %s says %q", LabelStore, owner)
	}
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(
		"ConfigMap %s is not the store of provider %q: %s. Rename or delete it, or choose another --provider-store-namespace", s.key, s.provider, why)}
}

func (s *Store) conflict() error {
	return &abi.Error{Code: abi.CodeConflict, Message: fmt.Sprintf("the store (ConfigMap %s) has changed since it was read: read it again and decide anew", s.key)}
}

func version(cm *corev1.ConfigMap) string {
	if cm == nil {
		return versionAbsent
	}
	return string(cm.UID) + "/" + cm.ResourceVersion
}

// apiError maps an error of the API server.
func (s *Store) apiError(verb string, err error) error {
	message := fmt.Sprintf("%s ConfigMap %s: %v", verb, s.key, err)
	seconds, hasDelay := apierrors.SuggestsClientDelay(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &abi.Error{Code: abi.CodeDeadline, Message: message}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &abi.Error{Code: abi.CodeUnavailable, Message: message}
	case apierrors.IsForbidden(err):
		return &abi.Error{Code: abi.CodeDenied, Message: message + "; " + s.rule(verb)}
	case apierrors.IsUnauthorized(err):
		return &abi.Error{Code: abi.CodeDenied, Message: message + "; the manager's own credentials for the API server are not valid"}
	case apierrors.IsNotFound(err):
		return &abi.Error{Code: abi.CodeInvalid, Message: message + "; create the namespace, or choose another --provider-store-namespace"}
	case apierrors.IsRequestEntityTooLargeError(err):
		return &abi.Error{Code: abi.CodeTooLarge, Message: message}
	case apierrors.IsTooManyRequests(err):
		e := &abi.Error{Code: abi.CodeThrottled, Message: message}
		if hasDelay {
			e.RetryAfter = retryAfter(seconds)
		}
		return e
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return &abi.Error{Code: abi.CodeInternal, Message: message}
	}
	// Timeouts, a refused or broken connection, an API server that restarts.
	return &abi.Error{Code: abi.CodeUnavailable, Message: message}
}

// rule names the missing right. RBAC cannot restrict create by name.
func (s *Store) rule(verb string) string {
	rule := text.Rule{Resource: "configmaps", Verbs: []string{verb}}
	if verb != "create" {
		rule.Names = []string{s.key.Name}
	}
	return text.AddRules(s.key.Namespace, rule)
}
