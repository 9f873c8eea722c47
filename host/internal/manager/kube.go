package manager

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ccmconfig "k8s.io/cloud-provider/app/config"
)

// kube is one part's access to the API server. Each provider has its own rates:
// one provider's store or Events do not delay another.
type kube struct {
	client kubernetes.Interface
	events recorder
}

// eventBurst and eventsPerSecond bound the Events on one object. A rollout makes some
// eight, and the last one, with the reason of its end, must not be dropped.
const (
	eventBurst      = 200
	eventsPerSecond = 0.5
)

// newRecorder has its own broadcaster: upstream's may start only after the
// first offer was rejected. Its client has its own rate, too: Events must not
// delay stores and Secrets. It ends last, after the parts that still make
// Events.
func (m *manager) newRecorder(c *ccmconfig.CompletedConfig) (recorder, error) {
	client, err := m.outside.client(c.Kubeconfig)
	if err != nil {
		return recorder{}, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(m.life)),
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventsPerSecond}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	own := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return recorder{m.leadership.Recorder(own), sync.OnceFunc(broadcaster.Shutdown)}, nil
}

// recorder records Events until its end, which may be called repeatedly.
type recorder struct {
	record.EventRecorder
	end func()
}

func (m *manager) newKube(c *ccmconfig.CompletedConfig) (kube, error) {
	client, err := m.outside.client(c.Kubeconfig)
	if err != nil {
		return kube{}, err
	}
	events, err := m.newRecorder(c)
	return kube{client, events}, err
}
