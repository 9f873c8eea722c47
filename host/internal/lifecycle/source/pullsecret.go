package source

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	kubeauth "github.com/google/go-containerregistry/pkg/authn/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/informer"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// PullSecret is a Secret with the credentials of a registry, watched while its source runs.
// A nil PullSecret has none.
type PullSecret struct {
	name   types.NamespacedName
	secret *informer.Named[*corev1.Secret]
	// settled is closed at the first list or error.
	settled chan struct{}
	once    sync.Once
}

// NewPullSecret returns the Secret of that name, of the type
// kubernetes.io/dockerconfigjson. The client needs the verbs list and watch on
// it.
func NewPullSecret(client kubernetes.Interface, name types.NamespacedName) *PullSecret {
	return &PullSecret{name: name, secret: informer.Secret(client, name), settled: make(chan struct{})}
}

// String names it; "" for nil.
func (s *PullSecret) String() string {
	if s == nil {
		return ""
	}
	return "pullSecret " + s.name.String()
}

// run watches the Secret until the context ends, and returns a channel that signals changes.
func (s *PullSecret) run(ctx context.Context, wg *sync.WaitGroup) <-chan struct{} {
	if s == nil {
		return nil
	}
	renewed := make(chan struct{}, 1)
	wg.Go(func() {
		s.secret.Run(ctx, func(e informer.Event) {
			select {
			case <-s.settled: // the first list is not a change
				if e == informer.Failed {
					return // the last seen state stays: nothing better can be had
				}
				select {
				case renewed <- struct{}{}:
				default: // a signal is pending
				}
			default:
				s.once.Do(func() { close(s.settled) })
			}
		})
	})
	return renewed
}

// keys returns the current credentials. The error holds none.
func (s *PullSecret) keys(ctx context.Context) (authn.Keychain, error) {
	if s == nil {
		return nil, nil
	}
	select {
	case <-s.settled:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	secret, err := s.secret.Get()
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("list pullSecret %s: %w; %s", s.name, err,
			text.AddRules(s.name.Namespace, text.Rule{Resource: "secrets", Names: []string{s.name.Name}, Verbs: []string{"list", "watch"}}))
	case err != nil:
		return nil, fmt.Errorf("list pullSecret %s: %w", s.name, err)
	case secret == nil:
		return nil, fmt.Errorf("the pullSecret %s does not exist: create it (kubectl -n %s create secret docker-registry %s --docker-server=... --docker-username=... --docker-password=...)", s.name, s.name.Namespace, s.name.Name)
	case secret.Type != corev1.SecretTypeDockerConfigJson:
		return nil, fmt.Errorf("the pullSecret %s is of the type %.100q, not kubernetes.io/dockerconfigjson: create it by kubectl create secret docker-registry", s.name, secret.Type)
	}
	keys, err := kubeauth.NewFromPullSecrets(ctx, []corev1.Secret{*secret})
	if err != nil { // whose text may quote a value
		return nil, fmt.Errorf("the pullSecret %s: its .dockerconfigjson is not valid: create it by kubectl create secret docker-registry", s.name)
	}
	return keys, nil
}
