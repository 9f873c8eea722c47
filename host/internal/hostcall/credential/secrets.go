package credential

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Secrets has the values of Kubernetes Secrets. It is safe for concurrent use.
type Secrets interface {
	// Get returns the values of a Secret by their keys, and a version that
	// changes with them. The caller must not change the values. The error
	// names the Secret, and holds no value.
	Get(ctx context.Context, namespace, name string) (data map[string][]byte, version string, err error)
}

// WatchedSecrets knows some Secrets as they are now, by watching each of them
// through the API.
type WatchedSecrets struct {
	secrets map[types.NamespacedName]*watchedSecret
}

type watchedSecret struct {
	name     types.NamespacedName
	informer cache.SharedIndexInformer
	settled  chan struct{} // closed when there is a list, or an error
	once     sync.Once

	mu  sync.Mutex
	err error // why there is no list yet
}

// NewWatchedSecrets returns the Secrets of these names. The client needs the
// verbs get, list and watch on each; names may repeat.
func NewWatchedSecrets(client kubernetes.Interface, names []types.NamespacedName) *WatchedSecrets {
	w := &WatchedSecrets{secrets: make(map[types.NamespacedName]*watchedSecret, len(names))}
	for _, name := range names {
		if w.secrets[name] == nil {
			w.secrets[name] = &watchedSecret{name: name, settled: make(chan struct{}), informer: newInformer(client, name)}
		}
	}
	return w
}

func newInformer(client kubernetes.Interface, name types.NamespacedName) cache.SharedIndexInformer {
	return coreinformers.NewFilteredSecretInformer(client, name.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	})
}

// Run watches the Secrets until the context ends. It is called once.
func (w *WatchedSecrets) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range w.secrets {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
}

func (s *watchedSecret) run(ctx context.Context) {
	// It fails only on an informer that runs already.
	err := s.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		s.settle(err)
	})
	if err != nil {
		s.settle(err)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
		s.settle(nil)
	}
}

func (s *watchedSecret) settle(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.once.Do(func() { close(s.settled) })
}

// Get implements Secrets. It waits for Run to have asked for the Secret.
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
	return s.get()
}

func (s *watchedSecret) get() (map[string][]byte, string, error) {
	if !s.informer.HasSynced() {
		return nil, "", s.unreadable()
	}
	object, _, err := s.informer.GetStore().GetByKey(s.name.String())
	secret, ok := object.(*corev1.Secret)
	if err != nil || !ok {
		return nil, "", fmt.Errorf("the Secret %s does not exist; create it", s.name)
	}
	return secret.Data, string(secret.UID) + "/" + secret.ResourceVersion, nil
}

// unreadable says why the Secret could not be listed yet.
func (s *watchedSecret) unreadable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rule := ""
	if apierrors.IsForbidden(s.err) {
		rule = "; " + text.AddRules(s.name.Namespace, text.Rule{Resource: "secrets", Names: []string{s.name.Name}, Verbs: []string{"get", "list", "watch"}})
	}
	return fmt.Errorf("list Secret %s: %w%s", s.name, s.err, rule)
}
