package manager

import (
	"context"
	"io"
	"math/rand/v2"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/store"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

// hosts builds the host calls of each generation of a provider. The rates
// outlive generations.
type hosts struct {
	logger    klog.Logger
	events    record.EventRecorder
	client    kubernetes.Interface
	allowed   *allowed
	rates     *hostfunc.Rates
	namespace string
	metrics   *metrics.Provider
	// clients write the objects of ops.
	clients kubecache.Clients
}

// host returns the host calls of one generation: recorded or replayed as the op
// demands, and restricted to the present grants.
func (h *hosts) host(m *manifest.Manifest, own *network, storeName string) (host engine.Host, stdout, stderr io.Writer) {
	options := hostfunc.Options{
		Provider: m.Name,
		Logger:   h.logger,
		Events:   h.events,
		Nodes:    true,
		Cache:    hostfunc.NewCache(clock.RealClock{}),
		Store:    store.New(h.client.CoreV1(), h.namespace, store.Name(storeName), storeName),
		HTTP:     own.Client,
		Kube:     seen{own, h.allowed, rand.Uint64(), h.clients},
		Rates:    h.rates,
		// Invariant S6 (host/SECURITY.md): log, output and Events of a provider are scrubbed.
		Scrub:   h.allowed.scrub,
		Dropped: h.metrics.Dropped,
	}
	answering := hostfunc.New(options)
	return shadow.Host(grantedHost{answering, h.allowed}), answering.Output("stdout"), answering.Output("stderr")
}

// grantedHost checks at each call whether the capability is still granted: the
// check at loading may be out of date.
type grantedHost struct {
	engine.Host
	allowed *allowed
}

// HostCall implements engine.Host.
func (g grantedHost) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	// Invariant G3 (host/SECURITY.md): each call needs the present grant, not
	// only the one at loading.
	if name == abi.ImportLog || g.allowed.capability(name) {
		return g.Host.HostCall(ctx, name, request)
	}
	detail := &abi.ErrorDetail{Message: name + ": it is no longer granted: " + module.Mend(name)}
	data, _ := wire.Marshal(detail) // without it the code suffices
	return abi.CodeDenied, data
}

// rateLimits are the rates of a HostConfiguration; bursts grow with their rates.
func rateLimits(l v1alpha1.Limits) hostfunc.Limits {
	bytes := int(l.LogBytesPerSecond.Value())
	return hostfunc.Limits{
		LogLines: l.LogLinesPerSecond, LogLinesBurst: 5 * l.LogLinesPerSecond,
		LogBytes: bytes, LogBytesBurst: 4 * bytes,
		Events: l.EventsPerSecond, EventsBurst: 10 * l.EventsPerSecond,
	}
}
