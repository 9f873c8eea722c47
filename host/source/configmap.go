package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// ConfigMap is a source that watches one ConfigMap through the API. While the
// ConfigMap does not exist it reports that, and picks it up once it does.
type ConfigMap struct {
	client kubernetes.Interface
	name   types.NamespacedName
	limits Limits
}

// NewConfigMap returns the source for the ConfigMap of that name. The client
// needs the verbs list and watch on it.
func NewConfigMap(client kubernetes.Interface, name types.NamespacedName, limits Limits) *ConfigMap {
	return &ConfigMap{client: client, name: name, limits: limits.withDefaults(mebibyte)}
}

// Run watches the ConfigMap; see Source.
func (c *ConfigMap) Run(ctx context.Context, handle Handler) {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // what the signal asks for is yet to come
		}
	}
	var listError atomic.Pointer[error]
	informer := c.informer()
	// Both fail only on an informer that runs already or has ended.
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(_, _ any) { signal() },
		DeleteFunc: func(any) { signal() },
	})
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			listError.Store(&err)
			signal()
		})
	}
	p := publisher{handle: handle}
	if err != nil {
		p.publish(c.bundle(nil), failed(ReasonConfigMapUnreadable, "watch ConfigMap %s: %w", c.name, err))
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() {
		cache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
		signal()
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		if registration.HasSynced() {
			p.publish(c.read(informer.GetStore()))
		} else if err := listError.Load(); err != nil {
			p.publish(c.bundle(nil), c.unreadable(*err))
		}
	}
}

func (c *ConfigMap) informer() cache.SharedIndexInformer {
	return coreinformers.NewFilteredConfigMapInformer(c.client, c.name.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.name.Name).String()
	})
}

// unreadable says why the ConfigMap could not be listed yet.
func (c *ConfigMap) unreadable(err error) error {
	rule := ""
	if apierrors.IsForbidden(err) {
		rule = fmt.Sprintf("; add to a Role in namespace %s that is bound to the manager's service account: {apiGroups: [\"\"], resources: [\"configmaps\"], resourceNames: [%q], verbs: [\"list\", \"watch\"]}", c.name.Namespace, c.name.Name)
	}
	return failed(ReasonConfigMapUnreadable, "list ConfigMap %s: %w%s", c.name, err, rule)
}

// read returns what the informer's store holds.
func (c *ConfigMap) read(store cache.Store) (Bundle, error) {
	object, _, err := store.GetByKey(c.name.String())
	cm, ok := object.(*corev1.ConfigMap)
	if err != nil || !ok {
		return c.bundle(nil), failed(ReasonConfigMapNotFound, "waiting for ConfigMap %s: it does not exist; create it with the module as a key NAME.wasm", c.name)
	}
	origin := c.bundle(cm)
	bundle, err := c.unpack(cm)
	if err != nil {
		return origin, inside(err, "ConfigMap "+c.name.String())
	}
	bundle.Origin, bundle.Ref = origin.Origin, origin.Ref
	return bundle, nil
}

func (c *ConfigMap) unpack(cm *corev1.ConfigMap) (Bundle, error) {
	values := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, value := range cm.Data {
		values[key] = []byte(value)
	}
	for key, value := range cm.BinaryData {
		values[key] = value
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	k, err := chooseKeys(names)
	if err != nil {
		return Bundle{}, err
	}
	return unpack(k, values[k.module], values[k.config], c.limits)
}

// bundle returns one without content; cm is nil when there is none.
func (c *ConfigMap) bundle(cm *corev1.ConfigMap) Bundle {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.name.Namespace, Name: c.name.Name}
	if cm != nil {
		ref.UID, ref.ResourceVersion = cm.UID, cm.ResourceVersion
	}
	return Bundle{Origin: "ConfigMap " + c.name.String(), Ref: ref}
}

// inside adds where to an error of chooseKeys or unpack.
func inside(err error, where string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return failed(e.Reason, "%s: %w", where, e.Err)
}
