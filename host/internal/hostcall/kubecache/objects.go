package kubecache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// maxGone bounds the remembered deletions.
	maxGone = 10_000
	// maxBytes bounds the encoded objects of one watch.
	maxBytes = 128 << 20
	// maxPageBytes is the size at which a page ends: a guest decodes it in its own, small
	// memory. A single object may be larger.
	maxPageBytes = 2 << 20
	// entryOverhead is the approximate memory of an entry beside its encoding.
	entryOverhead = 256
	// fitBytes is the size at which a dropped space is read again: below the limit, to avoid
	// oscillation.
	fitBytes = maxBytes / 4 * 3
	// rereadPause is the pause between two full reads, lostPause the pause if it is unknown
	// whether everything fits.
	rereadPause = time.Minute
	lostPause   = 10 * time.Minute

	tagObjects = 1<<3 | 2 // of abi.KubeResponse
	tagDeleted = 2<<3 | 2
)

// errTooMuch is the error of objects beyond the memory limit.
var errTooMuch = fmt.Errorf("they do not fit into the %d MiB that are kept", maxBytes>>20)

// objects are a watch's objects, in the order of their changes. They are a
// cache.ReflectorStore. It is safe for concurrent use.
type objects struct {
	seed   maphash.Seed
	synced chan struct{} // closed after the first full list

	mu     sync.RWMutex
	spaces map[string]*space // by namespace
	all    journal           // of all spaces
	// bytes is the memory of all spaces, graves counts their deletions, and some the counted
	// spaces.
	bytes, graves, counted int
	// reread has everything listed again, after a delay.
	reread func(time.Duration)
	// failed is the error of the last request.
	failed error
}

// entry is a version of an object, or its deletion.
type entry struct {
	namespace, name string
	uid             string
	version         string // metadata.resourceVersion
	// own and among are a deletion's numbers in the journals of its space and of all.
	own, among uint64
	// content is a hash of everything but the version.
	content uint64
	deleted bool
	stale   bool // guarded by objects' lock
	// encoded is the entry's field of a KubeResponse, with its tag; size is the entry's memory
	// with it.
	encoded []byte
	size    int
}

// held is its current memory.
func (e *entry) held() int { return len(e.encoded) + entryOverhead }

func newObjects() *objects {
	return &objects{seed: maphash.MakeSeed(), synced: make(chan struct{}), spaces: map[string]*space{}, all: newJournal(), reread: func(time.Duration) {}}
}

// begin sets the function that lists everything again. It is called once.
func (s *objects) begin(reread func(time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var once sync.Once
	s.reread = func(pause time.Duration) { once.Do(func() { reread(pause) }) }
}

// Add is cache.ReflectorStore's.
func (s *objects) Add(obj any) error {
	e, err := s.encode(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(e)
	s.settle()
	return nil
}

// Update is cache.ReflectorStore's.
func (s *objects) Update(obj any) error { return s.Add(obj) }

// Delete is cache.ReflectorStore's.
func (s *objects) Delete(obj any) error {
	o, ok := obj.(object)
	if !ok {
		return fmt.Errorf("%T has no encoding", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp := s.spaces[o.GetNamespace()]; sp != nil && sp.live[o.GetName()] != nil {
		s.bury(sp, sp.live[o.GetName()])
		s.settle()
	}
	return nil
}

// Replace is cache.ReflectorStore's. An unchanged object is no change.
func (s *objects) Replace(list []any, _ string) error {
	type key struct{ namespace, name string }
	entries := make(map[key]*entry, len(list))
	order := make([]*entry, 0, len(list))
	for _, obj := range list {
		e, err := s.encode(obj)
		if err != nil {
			return err
		}
		entries[key{e.namespace, e.name}] = e
		order = append(order, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, sp := range s.refused() { // they may fit now
		s.hold(sp, -sp.held)
		delete(s.spaces, namespace)
	}
	s.counted = 0
	for _, sp := range s.spaces {
		for _, e := range sp.live {
			if entries[key{e.namespace, e.name}] == nil {
				s.bury(sp, e)
			}
		}
	}
	for _, e := range order {
		s.put(e)
	}
	s.settle()
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
	return nil
}

// Resync is cache.ReflectorStore's.
func (s *objects) Resync() error { return nil }

// encode makes an entry of an object, and trims the object.
func (s *objects) encode(obj any) (*entry, error) {
	o, ok := obj.(object)
	if !ok {
		return nil, fmt.Errorf("%T has no encoding", obj)
	}
	trim(o)
	e := &entry{namespace: o.GetNamespace(), name: o.GetName(), uid: string(o.GetUID()), version: o.GetResourceVersion()}
	o.SetResourceVersion("")
	data, err := marshal(o)
	if err != nil {
		return nil, err
	}
	e.content = maphash.Bytes(s.seed, data)
	o.SetResourceVersion(e.version)
	if data, err = marshal(o); err != nil {
		return nil, err
	}
	e.encoded, err = field(tagObjects, &abi.KubeObject{Namespace: e.namespace, Name: e.name, Uid: e.uid, ResourceVersion: e.version, Object: data})
	e.size = e.held()
	return e, err
}

func marshal(o object) ([]byte, error) {
	data := make([]byte, o.Size())
	n, err := o.MarshalToSizedBuffer(data)
	return data[len(data)-n:], err
}

// field encodes a message as a field of another one.
func field(tag byte, m *abi.KubeObject) ([]byte, error) {
	size := m.SizeVT()
	data := binary.AppendUvarint(append(make([]byte, 0, size+8), tag), uint64(size))
	head := len(data)
	data = data[:head+size]
	_, err := m.MarshalToSizedBufferVT(data[head:])
	return data, err
}

// put adds an entry. The caller holds the lock.
func (s *objects) put(e *entry) {
	sp := s.space(e.namespace)
	before := sp.live[e.name]
	switch {
	case sp.lost:
		return
	case before != nil && before.uid == e.uid && before.content == e.content:
		return // no visible change
	case before != nil && before.uid != e.uid:
		s.bury(sp, before)
	case before != nil:
		s.retire(sp, before)
	}
	sp.live[e.name] = e
	s.keep(sp, e)
}

// bury replaces an object by its deletion. The caller holds the lock.
func (s *objects) bury(sp *space, e *entry) {
	s.retire(sp, e)
	delete(sp.live, e.name)
	if sp.counted { // nobody reads it
		return
	}
	grave := &entry{namespace: e.namespace, name: e.name, uid: e.uid, version: e.version, deleted: true}
	encoded, err := field(tagDeleted, &abi.KubeObject{Namespace: e.namespace, Name: e.name, Uid: e.uid, ResourceVersion: e.version})
	if err != nil { // impossible for four strings
		s.count(sp)
		s.reread(lostPause)
		return
	}
	grave.encoded, grave.size = encoded, len(encoded)+entryOverhead
	s.dig(sp, grave)
}

// tried records why nothing was read yet.
func (s *objects) tried(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// errNotRead is the error of objects that were not listed yet.
var errNotRead = errors.New("they are not listed yet")

// unread says why a namespace cannot be read now, or nil. Without a namespace it concerns
// all: an incomplete list would look like deletions, so it is an error.
func (s *objects) unread(namespace string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	select {
	case <-s.synced:
		return s.tooMuch(namespace)
	default:
	}
	if s.failed != nil {
		return s.failed
	}
	return errNotRead
}

// maxNamed bounds the namespaces named in an error.
const maxNamed = 5

func (s *objects) tooMuch(namespace string) error {
	some := s.refused()
	if namespace != "" {
		if some[namespace] == nil {
			return nil
		}
		some = map[string]*space{namespace: some[namespace]}
	}
	if len(some) == 0 {
		return nil
	}
	where := ""
	if named := slices.Sorted(maps.Keys(some)); named[0] != "" {
		where = fmt.Sprintf(" (of the namespaces %q)", named[:min(len(named), maxNamed)])
	}
	return fmt.Errorf("%w%s: take objects or long annotations away there; they are read again when they fit. Other namespaces can be asked for", errTooMuch, where)
}

// read is journal.read of one namespace, or of all.
func (s *objects) read(since *position, namespace, name string, count int) (page, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	j := &s.all
	if namespace != "" {
		j = &journal{}
		if sp := s.spaces[namespace]; sp != nil {
			j = &sp.journal
		}
	}
	return j.read(since, name, count)
}
