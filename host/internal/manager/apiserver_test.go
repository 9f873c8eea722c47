package manager

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// apiServer is one API server of several managers. Unlike client-go's fake it
// has the behaviour that they depend on: it compares resource versions, selects
// by fields, and can be unavailable to one of them.
type apiServer struct {
	mu      sync.Mutex // one request at a time
	tracker clienttesting.ObjectTracker
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	tracker := clienttesting.NewFieldManagedObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder(), applyconfigurations.NewTypeConverter(scheme.Scheme))
	inner := reflect.ValueOf(tracker).Elem().FieldByName("ObjectTracker")
	inner.Set(reflect.ValueOf(&versioned{ObjectTracker: inner.Interface().(clienttesting.ObjectTracker)}))
	return &apiServer{tracker: tracker}
}

// versioned gives each write a resource version, and refuses writes with an
// older one.
type versioned struct {
	clienttesting.ObjectTracker
	last int64
}

// Create implements clienttesting.ObjectTracker.
func (v *versioned) Create(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.CreateOptions) error {
	m := v.stamp(o)
	m.SetUID(types.UID("uid-" + m.GetResourceVersion()))
	return v.ObjectTracker.Create(gvr, o, ns, options...)
}

// Update implements clienttesting.ObjectTracker.
func (v *versioned) Update(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.UpdateOptions) error {
	if err := v.check(gvr, o, ns); err != nil {
		return err
	}
	v.stamp(o)
	return v.ObjectTracker.Update(gvr, o, ns, options...)
}

// Patch implements clienttesting.ObjectTracker.
func (v *versioned) Patch(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.PatchOptions) error {
	if err := v.check(gvr, o, ns); err != nil {
		return err
	}
	v.stamp(o)
	return v.ObjectTracker.Patch(gvr, o, ns, options...)
}

func (v *versioned) stamp(o runtime.Object) metav1.Object {
	m, err := meta.Accessor(o)
	if err != nil {
		panic(err)
	}
	v.last++
	m.SetResourceVersion(strconv.FormatInt(v.last, 10))
	return m
}

func (v *versioned) check(gvr schema.GroupVersionResource, o runtime.Object, ns string) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	live, err := v.Get(gvr, ns, m.GetName())
	if err != nil {
		return err
	}
	now, err := meta.Accessor(live)
	if err != nil {
		return err
	}
	if version := m.GetResourceVersion(); version != "" && version != now.GetResourceVersion() || m.GetUID() != "" && m.GetUID() != now.GetUID() {
		return apierrors.NewConflict(gvr.GroupResource(), m.GetName(), errors.New("the object has been modified"))
	}
	m.SetUID(now.GetUID())
	return nil
}

// line is a manager's connection to the API server.
type line struct {
	server *apiServer
	// late: one in so many writes is carried out but answered by an error; 0: none.
	late   atomic.Int64
	writes atomic.Int64

	mu      sync.Mutex
	cut     bool
	watches []watch.Interface
}

var errCut = errors.New("dial tcp 192.0.2.1:6443: connect: connection refused")

// set cuts or restores the line.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; cut {
		for _, w := range l.watches {
			w.Stop()
		}
		l.watches = nil
	}
}

func (l *line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// client returns one of several clients over the line.
func (l *line) client() kubernetes.Interface {
	c := &fake.Clientset{}
	c.AddReactor("*", "*", l.react)
	c.AddWatchReactor("*", l.watch)
	return c
}

func (l *line) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if l.isCut() {
		return true, nil, errCut
	}
	l.server.mu.Lock()
	handled, o, err := clienttesting.ObjectReaction(l.server.tracker)(action)
	l.server.mu.Unlock()
	if list, ok := action.(clienttesting.ListAction); ok && err == nil {
		err = selectFields(o, list.GetListRestrictions().Fields)
	}
	if late := l.late.Load(); late > 0 && slices.Contains([]string{"create", "update", "patch"}, action.GetVerb()) && l.writes.Add(1)%late == 0 {
		return true, nil, apierrors.NewTimeoutError("the server was unable to return a response in the time allotted", 1)
	}
	return handled, o, err
}

func selectFields(list runtime.Object, selector fields.Selector) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	kept := []runtime.Object{}
	for _, o := range items {
		if selects(selector, o) {
			kept = append(kept, o)
		}
	}
	return meta.SetList(list, kept)
}

func selects(selector fields.Selector, o runtime.Object) bool {
	m, err := meta.Accessor(o)
	return err == nil && (selector == nil || selector.Matches(fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}))
}

func (l *line) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return true, nil, errCut
	}
	options := action.(clienttesting.WatchActionImpl)
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	w, err := l.server.tracker.Watch(action.GetResource(), action.GetNamespace(), options.ListOptions)
	if err != nil {
		return true, nil, err
	}
	selector, err := fields.ParseSelector(options.ListOptions.FieldSelector)
	if err != nil {
		return true, nil, err
	}
	l.watches = append(l.watches, w)
	return true, newSelected(w, selector), nil
}

// selected is a watch filtered by a selector. Unlike watch.Filter's it also
// ends without a reader.
type selected struct {
	watch.Interface
	results chan watch.Event
	stopped chan struct{}
	stop    func()
}

func newSelected(w watch.Interface, selector fields.Selector) *selected {
	s := &selected{Interface: w, results: make(chan watch.Event), stopped: make(chan struct{})}
	s.stop = sync.OnceFunc(func() {
		close(s.stopped)
		w.Stop()
	})
	go func() {
		defer close(s.results)
		for e := range w.ResultChan() {
			if !selects(selector, e.Object) {
				continue
			}
			select {
			case s.results <- e:
			case <-s.stopped:
				return
			}
		}
	}()
	return s
}

// ResultChan and Stop are watch.Interface's.
func (s *selected) ResultChan() <-chan watch.Event { return s.results }
func (s *selected) Stop()                          { s.stop() }
