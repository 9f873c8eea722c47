package kubecache

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options are what Caches need.
type Options struct {
	// Client lists and watches.
	Client kubernetes.Interface
	// Go runs a task until the context that it is given ends, and waits for the
	// end of it when the manager ends.
	Go func(name string, run func(ctx context.Context))
}

// Caches are the watches of a manager, one for each target, as long as somebody
// needs it. They are safe for concurrent use.
type Caches struct {
	options Options
	fixed   []runtime.Object // instead of watches; nil: there are watches

	mu      sync.Mutex
	watches map[target]*watched
}

// watched is a watch with its users.
type watched struct {
	*objects
	// id is in the cursors of this watch.
	id    uint64
	users int
	stop  context.CancelFunc
}

// New returns caches that watch nothing yet.
func New(options Options) *Caches {
	return &Caches{options: options, watches: map[target]*watched{}}
}

// Of returns caches that have these objects for ever, for tests of providers. They
// watch nothing, and nobody may change the objects any more.
func Of(fixed ...runtime.Object) *Caches {
	c := New(Options{})
	c.fixed = append([]runtime.Object{}, fixed...) // never nil
	return c
}

// fill puts the fixed objects of a target into its watch.
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
	if err := w.Replace(all, ""); err != nil { // no object that Kubernetes has
		w.tried(err)
	}
}

// take begins to watch a target, if nobody has done so.
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

// run watches until one of the contexts ends.
func (c *Caches) run(ctx, life context.Context, t target, w *watched) {
	defer context.AfterFunc(life, w.stop)()
	source := t.watcher(c.options.Client, w.tried)
	cache.NewReflectorWithOptions(source, t.example(), w.objects, cache.ReflectorOptions{Name: "kube: " + t.String()}).RunWithContext(ctx)
}

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
