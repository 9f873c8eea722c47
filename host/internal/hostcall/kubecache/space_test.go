package kubecache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// large is a Service as anybody may make one who may create Services.
func large(namespace string, n, bytes int) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("s", n), Annotations: map[string]string{"x": strings.Repeat("x", bytes)},
	}}
}

// services are so many of 250 KiB.
func services(namespace string, count int) (all []any) {
	for n := range count {
		all = append(all, large(namespace, n, 250<<10))
	}
	return all
}

// refuses compares the namespaces that cannot be read.
func refuses(t *testing.T, s *objects, want map[string]bool) {
	t.Helper()
	for namespace, refused := range want {
		err := s.unread(namespace)
		if errors.Is(err, errTooMuch) != refused || (err != nil) != refused {
			t.Errorf("%q: %v, want an error: %v", namespace, err, refused)
		}
		if err != nil && !strings.Contains(err.Error(), "big") {
			t.Errorf("%q: the error does not name the namespace: %v", namespace, err)
		}
	}
	if s.bytes > maxBytes {
		t.Errorf("%d bytes are kept", s.bytes)
	}
}

// What is too much in one namespace is refused there, and in a list of all, which would
// not be whole; the others go on. It is read again when it fits.
func TestTooMuchIsRefusedWhereItIs(t *testing.T) {
	for name, fill := range map[string]func(*objects){
		"a list": func(s *objects) {
			must(t, s.Replace(append(append(services("big", 530), large("a", 1, 10)), services("b", 100)...), "1"))
		},
		"one after the other": func(s *objects) {
			must(t, s.Replace(append(services("b", 100), large("a", 1, 10)), "1"))
			for _, o := range services("big", 530) {
				must(t, s.Add(o))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, reread := newObjects(), 0
			s.begin(func(time.Duration) { reread++ })
			fill(s)
			refuses(t, s, map[string]bool{"": true, "big": true, "a": false, "b": false, "none": false})
			if p, _ := s.read(nil, "a", "", 10); len(p.data) == 0 {
				t.Error("nothing of the other namespace is read")
			}
			if reread != 0 {
				t.Error("it is read again, and does not fit")
			}
			for n := range 528 {
				must(t, s.Delete(large("big", n, 0)))
			}
			if reread != 1 {
				t.Errorf("it fits, and was read again %d times", reread)
			}
			must(t, s.Replace(append(services("big", 2), large("a", 1, 10)), "2"))
			refuses(t, s, map[string]bool{"": false, "big": false, "a": false})
			if p, _ := s.read(nil, "big", "", 10); len(p.data) < 2*250<<10 {
				t.Errorf("%d bytes are read", len(p.data))
			}
		})
	}
}

// Whatever is done, and however much there is, the bound holds, nobody reads a list that
// is not whole, and in the end all is there that fits.
func TestWhatIsReadIsWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := newObjects()
	must(t, s.Replace(nil, "0"))
	type key struct {
		namespace string
		n         int
	}
	want := map[key]int{}
	list := func() (all []any) {
		for k, bytes := range want {
			all = append(all, large(k.namespace, k.n, bytes))
		}
		return all
	}
	refused := 0
	for i := range 400 {
		k := key{fmt.Sprint("big", random.IntN(4)), random.IntN(20)}
		o := large(k.namespace, k.n, random.IntN(5<<20))
		if random.IntN(5) == 0 || i > 350 {
			delete(want, k)
			must(t, s.Delete(o))
		} else {
			want[k] = len(o.Annotations["x"])
			must(t, s.Add(o))
		}
		if random.IntN(50) == 0 {
			must(t, s.Replace(list(), "1"))
		}
		if s.bytes > maxBytes {
			t.Fatalf("%d bytes are kept", s.bytes)
		}
		if random.IntN(4) != 0 {
			continue
		}
		namespace := ""
		if random.IntN(2) == 0 {
			namespace = k.namespace
		}
		if s.unread(namespace) != nil {
			refused++
			continue
		}
		seen := 0
		for k := range want {
			if namespace == "" || namespace == k.namespace {
				seen++
			}
		}
		if got := count(t, s, namespace); got != seen {
			t.Fatalf("after %d changes %d objects are read of %q, want %d", i, got, namespace, seen)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	want = map[key]int{{"big", 1}: 1}
	must(t, s.Replace(list(), "2"))
	if err := s.unread(""); err != nil || count(t, s, "") != 1 {
		t.Errorf("%v, %d objects", err, count(t, s, ""))
	}
}

// count reads everything in pages.
func count(t *testing.T, s *objects, namespace string) (n int) {
	var since *position
	for {
		p, restarted := s.read(since, namespace, "", 1000)
		var m abi.KubeResponse
		must(t, m.UnmarshalVT(p.data))
		n += len(m.Objects)
		if since = &p.next; restarted || !p.more {
			return n
		}
	}
}

// Names alone may be too much, too.
func TestNamesThatAreTooMany(t *testing.T) {
	s := newObjects()
	var paused time.Duration
	s.begin(func(pause time.Duration) { paused = pause })
	must(t, s.Replace([]any{large("a", 0, 1)}, "1"))
	for n := range maxBytes/entryOverhead + 10 {
		must(t, s.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "big", Name: fmt.Sprint(n)}}))
	}
	refuses(t, s, map[string]bool{"": true, "big": true, "a": false})
	if s.spaces["big"].live != nil || paused != lostPause {
		t.Errorf("%d names are kept, it is read again after %v", len(s.spaces["big"].live), paused)
	}
	must(t, s.Delete(large("big", 1, 1)))
	must(t, s.Replace([]any{large("a", 0, 1)}, "2"))
	refuses(t, s, map[string]bool{"": false, "big": false, "a": false})
}

// Whatever is done in other namespaces, a cursor of one is the same, and so is what
// an answer costs.
func TestCursorsTellNothingOfOtherNamespaces(t *testing.T) {
	s := newObjects()
	must(t, s.Replace([]any{large("a", 1, 10), large("b", 1, 10)}, "1"))
	before, _ := s.read(nil, "a", "", 100)
	same := func(when string) {
		t.Helper()
		first, _ := s.read(nil, "a", "", 100)
		next, restarted := s.read(&before.next, "a", "", 100)
		if first.next != before.next || next.next != before.next || first.scanned != before.scanned || next.scanned != 0 || restarted {
			t.Errorf("after %s: the position was %+v and is %+v, %+v; %d and %d are looked at", when, before.next, first.next, next.next, first.scanned, next.scanned)
		}
	}
	must(t, s.Add(large("b", 2, 10)))
	same("another object")
	for n := range maxGone + 100 {
		must(t, s.Add(large("b", n, 10)))
		must(t, s.Delete(large("b", n, 10)))
	}
	same("many deletions")
	for _, o := range services("big", 530) {
		must(t, s.Add(o))
	}
	same("too much of it")
	if p, restarted := s.read(nil, "c", "", 100); p.next != (position{}) || restarted {
		t.Errorf("of a namespace without objects it is %+v", p.next)
	}
	must(t, s.Add(large("c", 1, 10)))
	if p, restarted := s.read(&position{}, "c", "", 100); len(p.data) == 0 || !restarted {
		t.Errorf("its first object is not read: %+v, %v", p, restarted)
	}
}

// A watch of real Services is refused, and heals by itself, while others read on.
func TestTooMuchHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := cluster()
		w := newWorld(t, client)
		v := w.open(t, Grant{Services: []string{All}})
		services := client.CoreV1().Services("big")
		for n := range 530 {
			_, err := services.Create(t.Context(), large("big", n, 250<<10), metav1.CreateOptions{})
			must(t, err)
			synctest.Wait() // what a fake watch can hold is little
		}
		read := func(namespace string) error {
			_, err := ask(t, v, 1, &abi.KubeRequest{Resource: Services, Namespace: namespace, Limit: 1})
			return err
		}
		var e *abi.Error
		if err := read("big"); !errors.As(err, &e) || e.Code != abi.CodeUnavailable || !strings.Contains(e.Message, `"big"`) {
			t.Errorf("the namespace: %v", err)
		}
		if err := read(""); !errors.As(err, &e) || e.Code != abi.CodeUnavailable {
			t.Errorf("all namespaces: %v", err)
		}
		if err := read("a"); err != nil {
			t.Errorf("another: %v", err)
		}
		for n := range 529 {
			must(t, services.Delete(context.Background(), fmt.Sprint("s", n), metav1.DeleteOptions{}))
			synctest.Wait()
		}
		time.Sleep(rereadPause)
		synctest.Wait()
		for _, namespace := range []string{"big", "", "a"} {
			if err := read(namespace); err != nil {
				t.Errorf("%q after it fits: %v", namespace, err)
			}
		}
	})
}
