package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/informer"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// ConfigKey names the key of a ConfigMap or a Secret with a configuration.
type ConfigKey struct {
	Object types.NamespacedName
	Key    string
	// Secret: the object is one, and the configuration is private.
	Secret bool
}

// String is the name for people.
func (k ConfigKey) String() string { return k.kind() + " " + k.Object.String() }

func (k ConfigKey) kind() string {
	if k.Secret {
		return "Secret"
	}
	return "ConfigMap"
}

// WithConfigFrom returns a source whose configuration is a watched key's; the module and its
// signature stay src's. A configuration beside the module must be equal, else it is an
// error. The client needs the verbs list and watch on the object.
func WithConfigFrom(src Source, client kubernetes.Interface, from ConfigKey, limits Limits) Source {
	c := &configObject{from: from, limits: limits.withDefaults(0)}
	if from.Secret {
		named := informer.Secret(client, from.Object)
		c.run = named.Run
		c.values = func() (map[string][]byte, types.UID, error) {
			secret, err := named.Get()
			if secret == nil {
				return nil, "", err
			}
			return orEmpty(secret.Data), secret.UID, err
		}
	} else {
		named := informer.ConfigMap(client, from.Object)
		c.run = named.Run
		c.values = func() (map[string][]byte, types.UID, error) {
			cm, err := named.Get()
			if cm == nil {
				return nil, "", err
			}
			return valuesOf(cm), cm.UID, err
		}
	}
	return &configured{src: src, config: c, together: togetherPeriod}
}

func orEmpty(values map[string][]byte) map[string][]byte {
	if values == nil {
		return map[string][]byte{}
	}
	return values
}

// configObject is a configuration in a ConfigMap or a Secret.
type configObject struct {
	from   ConfigKey
	limits Limits
	run    func(context.Context, func(informer.Event))
	// values are the object's, nil while it does not exist, and its UID.
	values func() (map[string][]byte, types.UID, error)
	uid    types.UID // at the last read
}

func (c *configObject) ref() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: c.from.kind(), Namespace: c.from.Object.Namespace, Name: c.from.Object.Name, UID: c.uid}
}

func (c *configObject) watch(ctx context.Context, changed chan<- struct{}) {
	c.run(ctx, func(informer.Event) {
		select {
		case changed <- struct{}{}:
		default: // a signal is pending
		}
	})
}

func (c *configObject) read(context.Context) (config []byte, known bool, err error) {
	values, uid, err := c.values()
	c.uid = uid
	switch {
	case errors.Is(err, informer.ErrPending):
		return nil, false, nil
	case err != nil:
		return nil, true, failed(ReasonConfigUnreadable, "configFrom: list %s: %w%s", c.from, err, c.missingRule(err))
	case values == nil:
		return nil, true, failed(ReasonConfigNotFound, "configFrom: waiting for %s: it does not exist; create it with the key %s", c.from, c.from.Key)
	}
	config, ok := values[c.from.Key]
	switch {
	case !ok:
		return nil, true, failed(ReasonConfigKeyMissing, "configFrom: %s has no key %s%s", c.from, c.from.Key, has(values))
	case int64(len(config)) > c.limits.MaxConfig:
		return nil, true, failed(ReasonConfigTooLarge, "configFrom: %s of %s is larger than %d bytes", c.from.Key, c.from, c.limits.MaxConfig)
	}
	return append([]byte{}, config...), true, nil
}

// has lists the keys, for a misspelt one.
func has(values map[string][]byte) string {
	if len(values) == 0 {
		return ", it is empty: add the key"
	}
	return fmt.Sprintf(" (it has %s): add it, or name another one in configFrom", list(slices.Collect(maps.Keys(values))))
}

func (c *configObject) missingRule(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	resource := strings.ToLower(c.from.kind()) + "s"
	return "; " + text.AddRules(c.from.Object.Namespace, text.Rule{Resource: resource, Names: []string{c.from.Object.Name}, Verbs: []string{"list", "watch"}})
}

// put refuses two different configurations: neither should win silently. Equal ones are
// allowed, for a move from one place to the other.
func (c *configObject) put(bundle Bundle, config []byte) (Bundle, error) {
	if bundle.Config != nil && !bytes.Equal(bundle.Config, config) {
		return Bundle{}, failed(ReasonConfigInTwoPlaces, "%s has a configuration beside the module, and configFrom names %s of %s, which differs: remove the one beside the module, or configFrom", bundle.Origin, c.from.Key, c.from)
	}
	bundle.Config = config
	if c.from.Secret {
		bundle.setPrivate(config, keyedDigest(string(c.uid), config))
	}
	bundle.Origin += ", configuration of " + c.from.String()
	return bundle, nil
}
