package source

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// ConfigMap is a source that watches one ConfigMap through the API, and those of the parts
// while it holds an index. It reports a missing ConfigMap, and reads it once it exists.
type ConfigMap struct {
	client kubernetes.Interface
	name   types.NamespacedName
	limits Limits
}

// roomRetry is the delay before another try to store a module after a full disk.
const roomRetry = 30 * time.Second

// NewConfigMap returns the source for the ConfigMap of that name. The client
// needs the verbs list and watch on it, and on the ConfigMaps of the parts.
func NewConfigMap(client kubernetes.Interface, name types.NamespacedName, limits Limits) *ConfigMap {
	return &ConfigMap{client: client, name: name, limits: limits.withDefaults(mebibyte)}
}

// Run watches the ConfigMaps; see Source.
func (c *ConfigMap) Run(ctx context.Context, handle Handler) {
	w := newWatches(ctx, c.client, c.name.Namespace)
	defer w.close()
	w.follow(c.name.Name)
	p := publisher{handle: handle}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-again:
		}
		bundle, known, err := c.read(w)
		if known && ctx.Err() == nil {
			p.publish(bundle, err)
		}
		if again = nil; quota.Short(err) {
			again = time.After(roomRetry)
		}
	}
}

// read returns the watched content; known is false while one of the watches has no list. It
// starts and ends the watches of the parts.
func (c *ConfigMap) read(w *watches) (bundle Bundle, known bool, err error) {
	if !w.known(c.name.Name) {
		return Bundle{}, false, nil
	}
	cm, err := w.get(c.name.Name)
	if err != nil {
		return configMapBundle(c.name, nil), true, c.unreadable(err, c.name.Name)
	}
	if cm == nil {
		w.follow(c.name.Name)
		return configMapBundle(c.name, nil), true, failed(ReasonConfigMapNotFound, "waiting for ConfigMap %s: it does not exist; create it with the module as a key NAME.wasm", c.name)
	}
	parts, err := Parts(cm)
	if err != nil {
		parts = nil // Join says what is wrong with the index
	}
	w.follow(append([]string{c.name.Name}, parts...)...)
	if !w.known(parts...) {
		return Bundle{}, false, nil
	}
	bundle, err = Join(cm, func(name string) (*corev1.ConfigMap, error) {
		cm, err := w.get(name)
		if err != nil {
			return nil, c.unreadable(err, parts...)
		}
		return cm, nil
	}, c.limits)
	return bundle, true, err
}

// unreadable says why a ConfigMap could not be listed yet, and which right is missing on
// these names.
func (c *ConfigMap) unreadable(err error, names ...string) error {
	rule := ""
	if apierrors.IsForbidden(err) {
		rule = "; " + text.AddRules(c.name.Namespace, text.Rule{Resource: "configmaps", Names: names, Verbs: []string{"list", "watch"}})
	}
	if len(names) == 1 && names[0] == c.name.Name {
		return failed(ReasonConfigMapUnreadable, "list ConfigMap %s: %w%s", c.name, err, rule)
	}
	return fmt.Errorf("%w%s", err, rule)
}
