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
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/store"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

// hosts makes what answers the host calls of each generation of a provider. The
// rates outlive generations.
type hosts struct {
	logger    klog.Logger
	events    record.EventRecorder
	client    kubernetes.Interface
	allowed   *allowed
	rates     *hostfunc.Rates
	namespace string
	metrics   *metrics.Provider
	// clients change the objects of ops.
	clients kubecache.Clients
}

// host returns what answers the host calls of one generation: recorded or
// replayed where the op is, and only what is still granted.
func (h *hosts) host(m *manifest.Manifest, own *network, storeName string) (host engine.Host, stdout, stderr io.Writer) {
	options := hostfunc.Options{
		Provider: m.Name,
		Logger:   h.logger,
		Events:   h.events,
		Nodes:    true,
		Cache:    hostfunc.NewCache(clock.RealClock{}),
		Store:    store.New(h.client.CoreV1(), h.namespace, store.Name(storeName), storeName),
		HTTP:     bound{own, h.allowed},
		Kube:     seen{own, h.allowed, rand.Uint64(), h.clients},
		Rates:    h.rates,
		// Invariant S6 (host/SECURITY.md): log, output and Events of a provider are scrubbed.
		Scrub:   h.allowed.scrub,
		Dropped: h.metrics.Dropped,
	}
	answering := hostfunc.New(options)
	return shadow.Host(granted{answering, h.allowed}), answering.Output("stdout"), answering.Output("stderr")
}

// granted asks at each call whether the capability is still granted: a module
// was checked when it was loaded, and the administrator may have changed his
// mind since.
type granted struct {
	engine.Host
	allowed *allowed
}

// HostCall is engine.Host.
func (g granted) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	// Invariant G3 (host/SECURITY.md): what is granted now counts at each call, not what was when
	// the module was loaded.
	if name == abi.ImportLog || g.allowed.capability(name) {
		return g.Host.HostCall(ctx, name, request)
	}
	detail := &abi.ErrorDetail{Message: name + ": it is no longer granted: " + module.Mend(name)}
	data := make([]byte, detail.SizeVT())
	if _, err := detail.MarshalToSizedBufferVT(data); err != nil {
		return abi.CodeDenied, nil
	}
	return abi.CodeDenied, data
}

// rateLimits are those of a HostConfiguration; bursts grow with their rates.
func rateLimits(l v1alpha1.Limits) hostfunc.Limits {
	bytes := int(l.LogBytesPerSecond.Value())
	return hostfunc.Limits{
		LogLines: l.LogLinesPerSecond, LogLinesBurst: 5 * l.LogLinesPerSecond,
		LogBytes: bytes, LogBytesBurst: 4 * bytes,
		Events: l.EventsPerSecond, EventsBurst: 10 * l.EventsPerSecond,
	}
}
