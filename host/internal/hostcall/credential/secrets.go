package credential

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/informer"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Secrets reads the values of Kubernetes Secrets. It is safe for concurrent use.
type Secrets interface {
	// Get returns the values of a Secret by their keys, and a version that changes with them.
	// The caller must not change the values. The error names the Secret, and holds no value.
	Get(ctx context.Context, namespace, name string) (data map[string][]byte, version string, err error)
}

// WatchedSecrets watches named Secrets through the API.
type WatchedSecrets struct {
	secrets map[types.NamespacedName]*watchedSecret
}

type watchedSecret struct {
	*informer.Named[*corev1.Secret]
	name    types.NamespacedName
	settled chan struct{} // closed at the first list or error
	once    sync.Once
	// changed, unless nil, is called after the first list. It is set before the watch begins.
	changed func(informer.Event)
}

// NewWatchedSecrets returns the Secrets of these names. The client needs the
// verbs get, list and watch on each; names may repeat.
func NewWatchedSecrets(client kubernetes.Interface, names []types.NamespacedName) *WatchedSecrets {
	w := &WatchedSecrets{secrets: make(map[types.NamespacedName]*watchedSecret, len(names))}
	for _, name := range names {
		if w.secrets[name] == nil {
			w.secrets[name] = &watchedSecret{name: name, settled: make(chan struct{}), Named: informer.Secret(client, name)}
		}
	}
	return w
}

// Run watches the Secrets until the context ends. It is called once.
func (w *WatchedSecrets) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range w.secrets {
		wg.Go(func() { s.Run(ctx, s.handle) })
	}
	wg.Wait()
}

func (s *watchedSecret) handle(event informer.Event) {
	switch {
	case event == informer.Listed, event == informer.Failed:
		s.once.Do(func() { close(s.settled) })
	case s.changed != nil:
		s.changed(event)
	}
}

// Get implements Secrets. It waits for the Secret's first list.
func (w *WatchedSecrets) Get(ctx context.Context, namespace, name string) (map[string][]byte, string, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	s := w.secrets[key]
	if s == nil {
		return nil, "", fmt.Errorf("the Secret %s is not watched", key)
	}
	select {
	case <-s.settled:
	case <-ctx.Done():
		return nil, "", fmt.Errorf("waiting for Secret %s: %w", key, context.Cause(ctx))
	}
	return s.values()
}

func (s *watchedSecret) values() (map[string][]byte, string, error) {
	secret, err := s.Get()
	switch {
	case apierrors.IsForbidden(err):
		return nil, "", fmt.Errorf("list Secret %s: %w; %s", s.name, err,
			text.AddRules(s.name.Namespace, text.Rule{Resource: "secrets", Names: []string{s.name.Name}, Verbs: []string{"get", "list", "watch"}}))
	case err != nil:
		return nil, "", fmt.Errorf("list Secret %s: %w", s.name, err)
	case secret == nil:
		return nil, "", fmt.Errorf("the Secret %s does not exist; create it", s.name)
	}
	return secret.Data, string(secret.UID) + "/" + secret.ResourceVersion, nil
}
