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

// kube is how one part of the manager talks to the API server. Each provider
// has its own, with rates of its own: what one keeps in its store, or says in
// Events, does not hold up another.
type kube struct {
	client kubernetes.Interface
	events recorder
}

// eventBurst and eventsPerSecond bound the Events on one object. A rollout has
// some eight, and the one that says why it ended must not be left out.
const (
	eventBurst      = 200
	eventsPerSecond = 0.5
)

// newRecorder has a broadcaster of its own: upstream's starts only after the
// first offer may already have been rejected. Its client has a rate of its
// own, too: Events must not hold up stores and Secrets. It ends last: what ends
// has something to tell.
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

// recorder records Events until its end, which may be called again.
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
