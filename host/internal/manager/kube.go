package manager

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/election"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// kube is one part's access to the API server. Each provider has its own rates:
// one provider's store or Events do not delay another.
type kube struct {
	client kubernetes.Interface
	events eventRecorder
}

// eventBurst and eventsPerSecond bound the Events on one object. A rollout makes some
// eight, and the last one, with the reason of its end, must not be dropped.
const (
	eventBurst      = 200
	eventsPerSecond = 0.5
)

// eventRecorder records Events until its end, which may be called repeatedly.
type eventRecorder struct {
	record.EventRecorder
	end func()
}

// kubes makes them; life is the context of all Events.
type kubes struct {
	client     func(*restclient.Config) (kubernetes.Interface, error)
	leadership *election.Leadership
	life       context.Context
}

func (k *kubes) new(c *restclient.Config) (kube, error) {
	client, err := k.client(c)
	if err != nil {
		return kube{}, err
	}
	events, err := k.newRecorder(c)
	return kube{client, events}, err
}

// newRecorder has its own broadcaster: upstream's may start only after the
// first offer was rejected. Its client has its own rate, too: Events must not
// delay stores and Secrets. It ends last, after the parts that still make
// Events.
func (k *kubes) newRecorder(c *restclient.Config) (eventRecorder, error) {
	client, err := k.client(c)
	if err != nil {
		return eventRecorder{}, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(k.life)),
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventsPerSecond}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	own := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return eventRecorder{k.leadership.Recorder(own), sync.OnceFunc(broadcaster.Shutdown)}, nil
}

// withRule adds the missing rule to an error about rights.
func withRule(err error, namespace string, rule text.Rule) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; %s", err, text.AddRules(namespace, rule))
}

func nodeReference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
