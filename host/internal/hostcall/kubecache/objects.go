package kubecache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sort"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// maxGone bounds how many deletions are remembered.
	maxGone = 10_000
	// maxBytes bounds what the encoded objects of one watch take.
	maxBytes = 128 << 20
	// maxPageBytes is when a page ends early: a guest decodes it in its own,
	// small memory. A single object may be larger.
	maxPageBytes = 2 << 20
	// entryOverhead is roughly what an entry takes beside its encoding.
	entryOverhead = 256

	tagObjects = 1<<3 | 2 // of abi.KubeResponse
	tagDeleted = 2<<3 | 2
)

// errTooMuch is of objects that take too much memory.
var errTooMuch = fmt.Errorf("they take more than %d MiB: grant less of them", maxBytes>>20)

// objects are those of one watch, in the order in which they have changed. They
// are a cache.ReflectorStore. It is safe for concurrent use.
type objects struct {
	seed   maphash.Seed
	synced chan struct{} // closed when everything was listed once

	mu   sync.RWMutex
	live map[key]*entry
	// log has an entry for each change, in their order. The number of the last one is
	// head. Those that newer ones have replaced stay until there are too many.
	log   []*entry
	stale int
	head  uint64
	// gone are the deletions in the log; those up to cut are forgotten.
	gone  []*entry
	cut   uint64
	bytes int
	// err is why nothing can be read for ever.
	err error
	// failed is why the last request failed.
	failed error
}

type key struct{ namespace, name string }

// entry is a version of an object, or the deletion of one.
type entry struct {
	key
	uid     string
	version string // metadata.resourceVersion
	number  uint64 // of the change
	// content is of all but the version.
	content uint64
	deleted bool
	stale   bool // guarded by the lock of objects
	// encoded is the entry's field of a KubeResponse, with its tag.
	encoded []byte
}

func newObjects() *objects {
	return &objects{seed: maphash.MakeSeed(), synced: make(chan struct{}), live: map[key]*entry{}}
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
	if e := s.live[key{o.GetNamespace(), o.GetName()}]; e != nil {
		s.bury(e)
	}
	return nil
}

// Replace is cache.ReflectorStore's. What is as it was before is no change.
func (s *objects) Replace(list []any, _ string) error {
	entries := make(map[key]*entry, len(list))
	order := make([]*entry, 0, len(list))
	for _, obj := range list {
		e, err := s.encode(obj)
		if err != nil {
			return err
		}
		entries[e.key] = e
		order = append(order, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.live {
		if entries[k] == nil {
			s.bury(e)
		}
	}
	for _, e := range order {
		s.put(e)
	}
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
	return nil
}

// Resync is cache.ReflectorStore's.
func (s *objects) Resync() error { return nil }

// encode makes an entry of an object, which it trims.
func (s *objects) encode(obj any) (*entry, error) {
	o, ok := obj.(object)
	if !ok {
		return nil, fmt.Errorf("%T has no encoding", obj)
	}
	trim(o)
	e := &entry{key: key{o.GetNamespace(), o.GetName()}, uid: string(o.GetUID()), version: o.GetResourceVersion()}
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

// put is called with the lock.
func (s *objects) put(e *entry) {
	before := s.live[e.key]
	switch {
	case s.err != nil:
		return
	case before != nil && before.uid == e.uid && before.content == e.content:
		return // nothing that anybody sees
	case before != nil && before.uid != e.uid:
		s.bury(before)
	case before != nil:
		s.retire(before)
	}
	s.live[e.key] = e
	s.append(e)
}

// bury puts a deletion in the place of an object. It is called with the lock.
func (s *objects) bury(e *entry) {
	s.retire(e)
	delete(s.live, e.key)
	grave := &entry{key: e.key, uid: e.uid, version: e.version, deleted: true}
	encoded, err := field(tagDeleted, &abi.KubeObject{Namespace: e.namespace, Name: e.name, Uid: e.uid, ResourceVersion: e.version})
	if err != nil { // of four strings: it cannot be
		s.fail(err)
		return
	}
	grave.encoded = encoded
	s.append(grave)
	s.gone = append(s.gone, grave)
	if len(s.gone) > maxGone {
		s.cut = s.gone[0].number
		s.retire(s.gone[0])
		s.gone = s.gone[1:]
	}
}

func (s *objects) retire(e *entry) {
	s.bytes -= len(e.encoded) + entryOverhead
	s.stale++
	e.stale, e.encoded = true, nil
}

func (s *objects) append(e *entry) {
	s.head++
	e.number = s.head
	s.log = append(s.log, e)
	if s.bytes += len(e.encoded) + entryOverhead; s.bytes > maxBytes {
		s.fail(errTooMuch)
	}
	if s.stale > len(s.log)/2+64 {
		s.log = slices.DeleteFunc(s.log, func(e *entry) bool { return e.stale })
		s.stale = 0
	}
}

// fail forgets everything for ever.
func (s *objects) fail(err error) {
	s.err = err
	s.live, s.log, s.gone = map[key]*entry{}, nil, nil
	s.stale, s.bytes = 0, 0
}

// tried keeps why nothing was read yet.
func (s *objects) tried(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// errNotRead is of objects that were not listed yet.
var errNotRead = errors.New("they were not listed yet")

// unread says why nothing can be read now, nil when something can.
func (s *objects) unread() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	select {
	case <-s.synced:
		return s.err
	default:
	}
	if s.failed != nil {
		return s.failed
	}
	return errNotRead
}

// position is a place in the changes.
type position struct {
	// number is of the last change that was looked at.
	number uint64
	// begun is where the changes were when everything was begun to be read:
	// deletions before it are nobody's news.
	begun uint64
}

// page is what was found from a position on.
type page struct {
	data    []byte // fields of a KubeResponse
	next    position
	more    bool
	scanned int // entries that were looked at
}

// known reports whether what has changed since a position is known.
func (s *objects) known(from position) bool {
	return max(from.number, from.begun) <= s.head && max(from.number, from.begun) >= s.cut
}

// read returns what has changed since a position, of the objects that are
// selected, at most count entries and about maxPageBytes; a nil position is the
// beginning. Restarted says that it is, because the position was of no use.
func (s *objects) read(since *position, selected func(namespace, name string) bool, count int) (p page, restarted bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from := position{begun: s.head}
	if since != nil && s.known(*since) {
		from = *since
	} else {
		restarted = since != nil
	}
	p.next = from
	start := sort.Search(len(s.log), func(i int) bool { return s.log[i].number > from.number })
	for found := 0; start < len(s.log); start++ {
		e := s.log[start]
		p.scanned++
		old := e.stale || e.deleted && e.number <= from.begun
		if !old && selected(e.namespace, e.name) {
			if found == count || found > 0 && len(p.data)+len(e.encoded) > maxPageBytes {
				p.more = true
				return p, restarted
			}
			p.data = append(p.data, e.encoded...)
			found++
		}
		p.next.number = e.number
	}
	p.next.number = s.head
	return p, restarted
}
