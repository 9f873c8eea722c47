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
	// scanCost is the cost of examining an entry, in bytes of an answer.
	scanCost = 64
	// maxWait bounds the wait for a first list.
	maxWait = 5 * time.Second
)

// View is the view of one configuration of a provider. It is safe for concurrent use.
type View struct {
	grant   Grant
	caches  *Caches
	watches map[target]*watched
	end     sync.Once
	refused func(what, advice string)

	mu   sync.Mutex
	told map[string]bool // reported refusals
}

// Open begins the watches that the grant needs, until Close. Refused is told each ungranted
// request once, with advice for the administrator.
func (c *Caches) Open(g Grant, refused func(what, advice string)) *View {
	v := &View{grant: g, caches: c, watches: map[target]*watched{}, refused: refused, told: map[string]bool{}}
	for _, t := range g.targets() {
		if v.watches[t] == nil {
			v.watches[t] = c.take(t)
		}
	}
	return v
}

// Close ends the watches without other users. It may be called again.
func (v *View) Close() {
	v.end.Do(func() {
		for t := range v.watches {
			v.caches.leave(t)
		}
	})
}

// Refusal is the error of an ungranted request, nil for a granted one. It is an *abi.Error.
func (v *View) Refusal(request *abi.KubeRequest) error {
	_, err := v.watched(request)
	return err
}

func (v *View) watched(request *abi.KubeRequest) (*watched, error) {
	asked := target{request.Resource, request.Namespace, request.Name}
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

// maxRefusals bounds a View's reported refusals.
const maxRefusals = 64

// refuse returns the error of an ungranted request, and reports it once. Advice is for the
// administrator.
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

// Read answers a request without a patch with an encoded abi.KubeResponse. Cost is the
// answer's charge to a budget, in bytes. Errors are an *abi.Error.
func (v *View) Read(ctx context.Context, generation uint64, request *abi.KubeRequest) (response []byte, cost int, err error) {
	w, err := v.watched(request)
	if err != nil {
		return nil, 0, err
	}
	if err := await(ctx, w.objects, request.Namespace); err != nil {
		return nil, 0, &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s: %v", request.Resource, err)}
	}
	scope := scopeOf(generation, w.id, request)
	p, restarted := w.read(scope.parse(request.Cursor), request.Namespace, request.Name, pageSize(request.Limit))
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

// await waits for the first list, at most maxWait.
func await(ctx context.Context, s *objects, namespace string) error {
	select {
	case <-s.synced:
		return s.unread(namespace)
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-s.synced:
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.unread(namespace)
}

func pageSize(limit uint32) int {
	if limit == 0 {
		return defaultPage
	}
	return int(min(limit, abi.MaxKubePage))
}

func newID() uint64 { return rand.Uint64() }

// cursorBytes is the length of a cursor: a scope, a number, and its begun.
const cursorBytes = 24

// scope is a cursor's range of validity: one watch of one manager, one generation, and one
// question. A forged cursor only reads from another position of data that the guest may read
// anyway.
type scope uint64

func scopeOf(generation, watch uint64, r *abi.KubeRequest) scope {
	h := fnv.New64a()
	var ids [16]byte
	binary.LittleEndian.PutUint64(ids[:], generation)
	binary.LittleEndian.PutUint64(ids[8:], watch)
	_, _ = h.Write(ids[:]) // it never fails
	_, _ = fmt.Fprintf(h, "%q%q%q", r.Resource, r.Namespace, r.Name)
	return scope(h.Sum64())
}

// append writes a cursor.
func (s scope) append(data []byte, p position) []byte {
	for _, n := range [...]uint64{uint64(s), p.number, p.begun} {
		data = binary.LittleEndian.AppendUint64(data, n)
	}
	return data
}

// parse returns the position of a cursor: nil without one, and an unknown position for a
// cursor of another scope.
func (s scope) parse(cursor []byte) *position {
	if len(cursor) == 0 {
		return nil
	}
	if len(cursor) != cursorBytes || scope(binary.LittleEndian.Uint64(cursor)) != s {
		return &position{number: ^uint64(0)}
	}
	return &position{number: binary.LittleEndian.Uint64(cursor[8:]), begun: binary.LittleEndian.Uint64(cursor[16:])}
}
