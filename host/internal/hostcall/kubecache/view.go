package kubecache

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	defaultPage = 500
	// scanCost is what it costs to look at an entry, in bytes of an answer.
	scanCost = 64
	// maxWait is how long a first list is waited for.
	maxWait = 5 * time.Second
)

// View is what one configuration of a provider lets it see. It is safe for
// concurrent use.
type View struct {
	grant   Grant
	caches  *Caches
	watches map[target]*watched
	end     sync.Once
	refused func(what, advice string)

	mu   sync.Mutex
	told map[string]bool // what was refused
}

// Open begins to watch what the grant needs, until Close. Refused is told what
// is asked for and not granted, each once, and what can be done about it.
func (c *Caches) Open(g Grant, refused func(what, advice string)) *View {
	v := &View{grant: g, caches: c, watches: map[target]*watched{}, refused: refused, told: map[string]bool{}}
	for _, t := range g.targets() {
		if v.watches[t] == nil {
			v.watches[t] = c.take(t)
		}
	}
	return v
}

// Close ends the watches that nobody else needs. It may be called again.
func (v *View) Close() {
	v.end.Do(func() {
		for t := range v.watches {
			v.caches.leave(t)
		}
	})
}

// Refusal is the error of a request that the grant does not allow, nil of one
// that it does. It is an *abi.Error.
func (v *View) Refusal(request *abi.KubeRequest) error {
	_, err := v.watched(request)
	return err
}

func (v *View) watched(request *abi.KubeRequest) (*watched, error) {
	asked := target{request.GetResource(), request.GetNamespace(), request.GetName()}
	if !slices.Contains([]string{Nodes, Services, EndpointSlices, ConfigMaps, Secrets}, asked.resource) {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("the resource %s cannot be read: there are %s, %s, %s, %s and %s",
			text.Quote(asked.resource), Nodes, Services, EndpointSlices, ConfigMaps, Secrets)}
	}
	t, advice := v.grant.covers(asked)
	if advice != "" {
		return nil, v.refuse(asked.String(), advice)
	}
	return v.watches[t], nil
}

// maxRefusals bounds how many refusals of a View are told.
const maxRefusals = 64

// refuse returns the error of what is not granted, and tells it once. Advice is
// what the administrator can do about it.
func (v *View) refuse(what, advice string) error {
	what, advice = text.Line(what, 600), text.Line(advice, 900)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.told[what] && len(v.told) < maxRefusals {
		v.told[what] = true
		v.refused(what, advice)
	}
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("%s: not granted; %s", what, advice)}
}

// Read answers a request without a patch with an encoded abi.KubeResponse. Cost
// is what the answer takes of a budget, in bytes. Errors are an *abi.Error.
func (v *View) Read(ctx context.Context, generation uint64, request *abi.KubeRequest) (response []byte, cost int, err error) {
	w, err := v.watched(request)
	if err != nil {
		return nil, 0, err
	}
	if err := await(ctx, w.objects); err != nil {
		return nil, 0, &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s: %v", request.GetResource(), err)}
	}
	scope := scopeOf(generation, w.id, request)
	p, restarted := w.read(scope.parse(request.GetCursor()), selector(request), pageSize(request.GetLimit()))
	response = make([]byte, 0, len(p.data)+64)
	response = append(response, p.data...)
	response = append(response, 3<<3|2, cursorBytes)
	response = scope.append(response, p.next)
	if p.more {
		response = append(response, 4<<3, 1)
	}
	if restarted {
		response = append(response, 5<<3, 1)
	}
	return response, len(response) + scanCost*p.scanned, nil
}

// await waits a short time for the first list.
func await(ctx context.Context, s *objects) error {
	select {
	case <-s.synced:
		return s.unread()
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-s.synced:
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.unread()
}

func selector(r *abi.KubeRequest) func(namespace, name string) bool {
	namespace, name := r.GetNamespace(), r.GetName()
	return func(ns, n string) bool { return (namespace == "" || ns == namespace) && (name == "" || n == name) }
}

func pageSize(limit uint32) int {
	if limit == 0 {
		return defaultPage
	}
	return int(min(limit, abi.MaxKubePage))
}

func newID() uint64 { return rand.Uint64() }

// cursorBytes is the length of a cursor: a scope, a number, where it was begun.
const cursorBytes = 24

// scope is what a cursor is good for: one watch of one manager, one generation,
// and one question. A guest that makes up a cursor reads from another place of
// what it may read anyway.
type scope uint64

func scopeOf(generation, watch uint64, r *abi.KubeRequest) scope {
	h := fnv.New64a()
	var ids [16]byte
	binary.LittleEndian.PutUint64(ids[:], generation)
	binary.LittleEndian.PutUint64(ids[8:], watch)
	_, _ = h.Write(ids[:]) // it never fails
	_, _ = fmt.Fprintf(h, "%q%q%q", r.GetResource(), r.GetNamespace(), r.GetName())
	return scope(h.Sum64())
}

// append writes a cursor.
func (s scope) append(data []byte, p position) []byte {
	for _, n := range [...]uint64{uint64(s), p.number, p.begun} {
		data = binary.LittleEndian.AppendUint64(data, n)
	}
	return data
}

// parse returns the position of a cursor: nil without one, and one that nobody
// knows of a cursor that is not of this scope.
func (s scope) parse(cursor []byte) *position {
	if len(cursor) == 0 {
		return nil
	}
	if len(cursor) != cursorBytes || scope(binary.LittleEndian.Uint64(cursor)) != s {
		return &position{number: ^uint64(0)}
	}
	return &position{number: binary.LittleEndian.Uint64(cursor[8:]), begun: binary.LittleEndian.Uint64(cursor[16:])}
}
