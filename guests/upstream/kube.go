package upstream

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// kube is Kubernetes for the provider: a cloudprovider.ControllerClientBuilder
// with clients that the capability kube answers, and informers. A watch never
// leaves the guest: it is fed when an op begins.
type kube struct {
	bridge    *bridge
	informers informers.SharedInformerFactory
	stop      chan struct{} // never closed: the instance ends as a whole

	mu      sync.Mutex
	ops     uint64 // number of the op, from 1
	follows map[scope]*follow
	// refused are resources that the host does not give as a whole. This is
	// final: another grant means another instance.
	refused map[string]bool
	told    map[string]bool // refusals
}

func newKube(b *bridge) (*kube, error) {
	k := &kube{bridge: b, stop: make(chan struct{}), ops: 1, follows: map[scope]*follow{}, refused: map[string]bool{}, told: map[string]bool{}}
	client, err := k.Client("informers")
	if err != nil {
		return nil, err
	}
	k.informers = informers.NewSharedInformerFactory(client, 0)
	return k, nil
}

// start starts the informers.
func (k *kube) start() { k.informers.Start(k.stop) }

// next begins an op: what the previous one read is outdated.
func (k *kube) next() {
	k.mu.Lock()
	k.ops++
	k.mu.Unlock()
}

// refresh updates informers to the cluster's present state.
func (k *kube) refresh(ctx context.Context) error {
	if err := k.synced(ctx); err != nil {
		return err
	}
	if err := k.feed(ctx); err != nil {
		return err
	}
	for range settle { // a change passes several goroutines from the watch to the informer's store
		runtime.Gosched()
	}
	return nil
}

const settle = 64

// synced waits until the informers have their list and watch for changes;
// refused ones are ignored. Their own wait sleeps for 100 ms, and ends before
// they watch: an op would miss what the next one sees.
func (k *kube) synced(ctx context.Context) error {
	closed := make(chan struct{})
	close(closed)
	for {
		waiting := k.waiting(closed)
		if waiting == "" {
			return nil
		}
		if ctx.Err() != nil {
			return errors.New("the provider's informer of " + waiting + " got no list or no watch; the log says why")
		}
		for range settle {
			runtime.Gosched()
		}
		time.Sleep(time.Millisecond)
	}
}

// waiting is a resource whose informer still lacks a list or a watch, and may
// get both.
func (k *kube) waiting(closed <-chan struct{}) string {
	listed := k.informers.WaitForCacheSync(closed)
	k.mu.Lock()
	defer k.mu.Unlock()
	for kind, ok := range listed {
		resource := resourceOf(kind.Elem().Name())
		if !k.refused[resource] && (!ok || !k.watched(resource)) {
			return resource
		}
	}
	return ""
}

// watched is called with the lock.
func (k *kube) watched(resource string) bool {
	for _, f := range k.follows {
		f.watches = slices.DeleteFunc(f.watches, (*watch).ended)
		if f.resource == resource && len(f.watches) > 0 {
			return true
		}
	}
	return false
}

// resourceOf is the resource of a kind: "nodes" for "Node".
func resourceOf(kind string) string {
	plural, _ := meta.UnsafeGuessKindToResource(schemaKind(kind))
	return plural.Resource
}

// feed asks once per op for each watched resource.
func (k *kube) feed(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.follows {
		f.watches = slices.DeleteFunc(f.watches, (*watch).ended)
		if len(f.watches) == 0 || f.op == k.ops {
			continue
		}
		if err := k.sync(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// Config is part of cloudprovider.ControllerClientBuilder.
func (k *kube) Config(string) (*rest.Config, error) {
	return &rest.Config{
		Host: "https://kubernetes.default.svc", Transport: k, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: asJSON, AcceptContentTypes: asProtobuf + "," + asJSON},
	}, nil
}

// ConfigOrDie is part of cloudprovider.ControllerClientBuilder.
func (k *kube) ConfigOrDie(name string) *rest.Config {
	config, err := k.Config(name)
	if err != nil {
		panic(err)
	}
	return config
}

// Client is part of cloudprovider.ControllerClientBuilder.
func (k *kube) Client(name string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(k.ConfigOrDie(name), &http.Client{Transport: k})
}

// ClientOrDie is part of cloudprovider.ControllerClientBuilder.
func (k *kube) ClientOrDie(name string) kubernetes.Interface {
	client, err := k.Client(name)
	if err != nil {
		panic(err)
	}
	return client
}
