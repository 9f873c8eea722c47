// Package hostfunc answers the host calls of a provider: log, event, nodes, cache, store,
// kube and http_send. It decodes strictly, bounds the size, number and rate of everything,
// and refuses everything without a grant. The services behind the calls (an event recorder,
// a store, a network) are narrow interfaces.
package hostfunc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// EventRecorder is a part of client-go's record.EventRecorder.
type EventRecorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Store is a provider's durable state; *store.Store is one. Errors that are an
// *abi.Error reach the guest with their code.
type Store interface {
	Read(ctx context.Context, prefix string) (*abi.StoreResponse, error)
	Write(ctx context.Context, write *abi.StoreWrite) (*abi.StoreResponse, error)
}

// HTTP is a provider's network; *egress.Client is one.
type HTTP interface {
	Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error)
}

// Options are a provider's services. A capability that is nil or false is denied.
type Options struct {
	// Provider is the name of the provider.
	Provider string
	// Logger takes the provider's log; its lines get the provider's name.
	Logger logr.Logger
	Events EventRecorder
	Nodes  bool
	Cache  *Cache
	Store  Store
	HTTP   HTTP
	Kube   Kube
	// Rates bound log, Events, store and kube; a provider's should outlive its generations, or a
	// replacement would reset them. Nil takes new ones with the defaults.
	Rates *Rates
	// Scrub replaces secrets in a guest's log lines and Events; without a secret it returns its
	// input. Nil scrubs nothing.
	Scrub func(string) string
	// Dropped is told of each drop for a rate: what is DroppedLog or DroppedEvent. It may be
	// nil, and must not block.
	Dropped func(what string)
}

// Kinds of drops for a rate.
const (
	DroppedLog   = "log"
	DroppedEvent = "event"
)

// Host answers the host calls of all instances of one provider; it is an
// engine.Host. It is safe for concurrent use.
type Host struct {
	options Options
	log     *providerLog
	rates   *Rates
}

// New returns a host with these options.
func New(options Options) *Host {
	if options.Dropped == nil {
		options.Dropped = func(string) {}
	}
	if options.Scrub == nil {
		options.Scrub = func(s string) string { return s }
	}
	if options.Rates == nil {
		options.Rates = NewRates(Limits{})
	}
	return &Host{options: options, log: newProviderLog(options), rates: options.Rates}
}

// HostCall runs the host call of that name; see engine.Host.
func (h *Host) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	if most := abi.MaxRequestOf(name); len(request) > most {
		return failure(name, tooLarge("the request has %d bytes, the limit is %d", len(request), most))
	}
	result, err := h.call(ctx, name, request)
	if err == nil && len(result) > abi.MaxHostResultBytes {
		err = tooLarge("the result has %d bytes, the limit is %d: ask for less at once", len(result), abi.MaxHostResultBytes)
	}
	if err != nil {
		return failure(name, err)
	}
	return abi.CodeOK, result
}

func (h *Host) call(ctx context.Context, name string, request []byte) ([]byte, error) {
	switch name {
	case abi.ImportLog:
		return nil, h.writeLog(ctx, request)
	case abi.CapabilityEvent:
		return nil, h.event(ctx, request)
	case abi.CapabilityNodes:
		return h.nodes(ctx, request)
	case abi.CapabilityCache:
		return h.cache(ctx, request)
	case abi.CapabilityStore:
		return h.callStore(ctx, request)
	case abi.CapabilityHTTP:
		return h.send(ctx, request)
	case abi.CapabilityKube:
		return h.kube(ctx, request)
	}
	return nil, &abi.Error{Code: abi.CodeNotImplemented, Message: "this host has no such host call"}
}

// dropped reports whether a write of this op is silently dropped. A cache may forget, and no
// answer depends on an Event or a patch.
//
// Invariant R7 (host/SECURITY.md): a rehearsed op writes nothing.
func dropped(ctx context.Context) bool {
	gate := writegate.FromContext(ctx)
	if gate != nil {
		gate.Drop()
	}
	return gate != nil
}

func (h *Host) cache(ctx context.Context, request []byte) ([]byte, error) {
	// Invariant G2 (host/SECURITY.md): an ungranted capability is nil or false in Options, and
	// each host call checks its own first.
	if h.options.Cache == nil {
		return nil, h.denied()
	}
	var m abi.CacheRequest
	if err := decode(ctx, request, &m); err != nil {
		return nil, err
	}
	if m.Put != nil && dropped(ctx) {
		return nil, nil
	}
	if m.Put != nil {
		err := h.options.Cache.put(m.Key, m.Put)
		return nil, err
	}
	value, found := h.options.Cache.get(m.Key)
	return encode(&abi.CacheResponse{Found: found, Value: value})
}

func (h *Host) callStore(ctx context.Context, request []byte) ([]byte, error) {
	if h.options.Store == nil {
		return nil, h.denied()
	}
	var m abi.StoreRequest
	if err := decode(ctx, request, &m); err != nil {
		return nil, err
	}
	// Invariant R7 (host/SECURITY.md): a rehearsed op writes nothing.
	if gate := writegate.FromContext(ctx); gate != nil && m.Write != nil {
		return nil, gate.Refuse("the store is not written")
	}
	if m.Write != nil && m.Prefix != "" {
		return nil, invalid("a write has no prefix: leave it empty")
	}
	if err := h.rates.store.Wait(ctx); err != nil {
		return nil, &abi.Error{Code: abi.CodeThrottled, Message: "too many calls of the store: read once, and write once with all changes"}
	}
	var response *abi.StoreResponse
	var err error
	if m.Write != nil {
		response, err = h.options.Store.Write(ctx, m.Write)
	} else {
		response, err = h.options.Store.Read(ctx, m.Prefix)
	}
	if err != nil {
		return nil, err
	}
	return encode(response)
}

func (h *Host) send(ctx context.Context, request []byte) ([]byte, error) {
	if h.options.HTTP == nil {
		return nil, &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("provider %q has no network: to allow it, add a grant to the HostConfiguration (providers[].grants)", h.options.Provider)}
	}
	var m abi.HttpSendRequest
	if err := decode(ctx, request, &m); err != nil {
		return nil, err
	}
	if n := len(m.Requests); n == 0 || n > abi.MaxHTTPBatch {
		return nil, invalid("%d requests in one batch, must be from 1 to %d", n, abi.MaxHTTPBatch)
	}
	results, err := h.options.HTTP.Send(ctx, m.Requests)
	if err != nil {
		return nil, err
	}
	return encode(&abi.HttpSendResponse{Results: results})
}

func (h *Host) denied() error {
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("the administrator has not granted this capability to provider %q", h.options.Provider)}
}

// decode reads a request within its memory bound. A request decoded after the deadline has
// no effect.
func decode(ctx context.Context, request []byte, m abi.Message) error {
	if err := wire.UnmarshalWithin(request, m, wire.MaxRequestOverhead); err != nil {
		return invalid("the request does not decode: %v", err)
	}
	// A context's timer needs a free processor to fire.
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func encode(m abi.Message) ([]byte, error) {
	size := m.SizeVT()
	if size > abi.MaxHostResultBytes {
		return nil, tooLarge("the result has %d bytes, the limit is %d: ask for less at once", size, abi.MaxHostResultBytes)
	}
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return data, nil
}

// failure is the answer to a call that failed.
func failure(name string, err error) (abi.Code, []byte) {
	code, detail := abi.CodeInternal, &abi.ErrorDetail{}
	var e *abi.Error
	switch {
	case errors.As(err, &e):
		code, detail.RetryAfterMs = e.Code, e.RetryAfter.Milliseconds()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = abi.CodeDeadline
	}
	detail.Message = text.Line(name+": "+err.Error(), abi.MaxErrorMessageBytes)
	data, err := encode(detail)
	if err != nil {
		return code, nil
	}
	return code, data
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf(format, args...)}
}
