package kubecache

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options are the needs of Caches.
type Options struct {
	// Client lists and watches.
	Client kubernetes.Interface
	// Go runs a task until its context ends, and waits for it at the end of the manager.
	Go func(name string, run func(ctx context.Context))
}

// Caches are a manager's watches, one for each target in use. They are safe for concurrent
// use.
type Caches struct {
	options Options
	fixed   []runtime.Object // instead of watches; nil: there are watches

	mu      sync.Mutex
	watches map[target]*watched
}

// watched is a watch with its users.
type watched struct {
	*objects
	// id occurs in the cursors of this watch.
	id    uint64
	users int
	stop  context.CancelFunc
}

// New returns caches without watches.
func New(options Options) *Caches {
	return &Caches{options: options, watches: map[target]*watched{}}
}

// Of returns caches with constant objects, for tests of providers. They watch nothing, and
// the objects must not change any more.
func Of(fixed ...runtime.Object) *Caches {
	c := New(Options{})
	c.fixed = append([]runtime.Object{}, fixed...) // never nil
	return c
}

// fill puts a target's constant objects into its watch.
func (c *Caches) fill(t target, w *watched) {
	wanted := reflect.TypeOf(t.example())
	var all []any
	for _, o := range c.fixed {
		is, ok := o.DeepCopyObject().(object)
		if ok && reflect.TypeOf(is) == wanted &&
			(t.namespace == "" || t.namespace == is.GetNamespace()) && (t.name == "" || t.name == is.GetName()) {
			all = append(all, is)
		}
	}
	w.stop = func() {}
	if err := w.Replace(all, ""); err != nil { // not an object of Kubernetes
		w.tried(err)
	}
}

// take begins the watch of a target, unless it exists.
func (c *Caches) take(t target) *watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[t]
	if w == nil {
		w = &watched{objects: newObjects(), id: newID()}
		c.watches[t] = w
		if c.fixed != nil {
			c.fill(t, w)
			w.users++
			return w
		}
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		c.options.Go("the watch of "+t.String(), func(life context.Context) { c.run(ctx, life, t, w) })
	}
	w.users++
	return w
}

// run watches until one of the contexts ends, and starts again when objects that did not fit
// do so now.
func (c *Caches) run(ctx, life context.Context, t target, w *watched) {
	defer context.AfterFunc(life, w.stop)()
	source := t.watcher(c.options.Client, w.tried)
	for ctx.Err() == nil {
		reading, again := context.WithCancel(ctx)
		began := time.Now()
		w.begin(func(pause time.Duration) { time.AfterFunc(max(0, pause-time.Since(began)), again) })
		r := cache.NewReflectorWithOptions(source, t.example(), w.objects, cache.ReflectorOptions{Name: "kube: " + t.String()})
		r.WatchListPageSize = listPage
		r.RunWithContext(reading)
		again()
	}
}

// listPage bounds an answer of the API server with large objects to the manager's limit. It
// is used where lists cannot be streamed.
const listPage = 250

// leave ends the watch with its last user.
func (c *Caches) leave(t target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[t]
	if w.users--; w.users == 0 {
		w.stop()
		delete(c.watches, t)
	}
}
