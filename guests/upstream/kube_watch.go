package upstream

import (
	"context"
	"io"
	"log"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// maxUnread bounds the changes that a client has not read. Beyond it the client
// lists again.
const maxUnread = 64 << 20

// watch is a client's watch. A follow feeds it.
type watch struct {
	*query

	mu     sync.Mutex
	some   sync.Cond
	unread []byte
	end    bool
}

func newWatch(q *query) *watch {
	w := &watch{query: q}
	w.some.L = &w.mu
	return w
}

// watch answers with the changes since a list, or with all objects and the
// changes from now on.
func (k *kube) watch(r *http.Request, q *query) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, err := k.follow(q.scope)
	if err == nil && f.All() == nil {
		err = k.sync(r.Context(), f)
	}
	if err != nil {
		return k.failed(r, err)
	}
	w := newWatch(q)
	switch version := r.URL.Query().Get("resourceVersion"); {
	case isTrue(r.URL, "sendInitialEvents"):
		err = w.begin(f, true)
	case version == "" || version == "0":
		err = w.begin(f, false)
	case version != f.version():
		return refuse(r, http.StatusGone, metav1.StatusReasonExpired, "there was a change since this list: list again")
	}
	if err != nil {
		return nil, err
	}
	f.watches = append(f.watches, w)
	context.AfterFunc(r.Context(), func() { _ = w.Close() }) // never fails
	return stream(r, http.StatusOK, q.format.contentType(), w, -1), nil
}

// begin writes all existing objects; with mark it adds the bookmark that ends
// them.
func (w *watch) begin(f *follow, mark bool) error {
	for _, o := range f.All() {
		w.changed(nil, o)
	}
	if !mark {
		return nil
	}
	end := w.kind.empty()
	end.SetResourceVersion(f.version())
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	raw, err := end.Marshal()
	if err != nil {
		return err
	}
	return w.event("BOOKMARK", raw)
}

// changed writes a change as the selectors see it.
func (w *watch) changed(before, now *abi.KubeObject) {
	if err := w.change(before, now); err != nil {
		log.Printf("upstream: a watch of %s ends: %v", w.resource, err)
		_ = w.Close() // never fails
	}
}

func (w *watch) change(before, now *abi.KubeObject) error {
	was, err := w.matches(before)
	if err != nil {
		return err
	}
	is, err := w.matches(now)
	if err != nil {
		return err
	}
	if was && (!is || before.Uid != now.Uid) {
		was = false
		if err := w.event("DELETED", before.Object); err != nil {
			return err
		}
	}
	switch {
	case is && was:
		return w.event("MODIFIED", now.Object)
	case is:
		return w.event("ADDED", now.Object)
	}
	return nil
}

func (w *watch) event(kind string, raw []byte) error {
	data, err := w.format.event(w.kind, kind, raw)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end {
		return nil
	}
	w.unread = append(w.unread, data...)
	w.some.Signal()
	return nil
}

// Read is io.Reader's.
func (w *watch) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.unread) == 0 && !w.end {
		w.some.Wait()
	}
	if w.end {
		return 0, io.EOF
	}
	n := copy(p, w.unread)
	if w.unread = w.unread[n:]; len(w.unread) == 0 {
		w.unread = nil
	}
	return n, nil
}

// Close ends the watch. It is io.Closer's.
func (w *watch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end, w.unread = true, nil
	w.some.Broadcast()
	return nil
}

// ended reports whether the watch has ended. It ends one with too many unread
// changes.
func (w *watch) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unread) > maxUnread {
		w.end, w.unread = true, nil
		w.some.Broadcast()
	}
	return w.end
}
