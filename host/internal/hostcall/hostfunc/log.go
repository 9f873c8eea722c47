package hostfunc

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	debugLevel = 4
	// maxLogValues bounds the values of one line.
	maxLogValues = 64
)

// providerLog is the log of one provider, bounded over all its instances. It
// is safe for concurrent use.
type providerLog struct {
	logger  logr.Logger
	rates   *Rates
	scrub   func(string) string
	dropped atomic.Int64
	onDrop  func(what string)
}

func newProviderLog(options Options) *providerLog {
	return &providerLog{
		logger: options.Logger.WithValues("module", options.Provider),
		rates:  options.Rates,
		scrub:  options.Scrub,
		onDrop: options.Dropped,
	}
}

// full reports whether a line would be dropped now, and counts it then. It is asked before a
// line is decoded, which costs more than dropping it.
func (l *providerLog) full() bool {
	if l.rates.lines.Tokens() >= 1 {
		return false
	}
	l.drop()
	return true
}

func (l *providerLog) drop() {
	l.dropped.Add(1)
	l.onDrop(DroppedLog)
}

// allow reports whether a line of that size may be written. Dropped lines are counted, and
// the count is logged before the next written line.
func (l *providerLog) allow(size int) bool {
	now := time.Now()
	// Invariant M8 (host/SECURITY.md): log and output take from the same rates, which outlive
	// generations.
	if !l.rates.lines.AllowN(now, 1) || !l.rates.bytes.AllowN(now, min(size, l.rates.bytes.Burst())) {
		l.drop()
		return false
	}
	if n := l.dropped.Swap(0); n > 0 {
		l.logger.Info("Lines of the provider's log were dropped, it writes too many", "dropped", n)
	}
	return true
}

// writeLog logs one line, cut at abi.MaxLogMessageBytes. A line over the rate
// is dropped, which is no error.
func (h *Host) writeLog(ctx context.Context, request []byte) error {
	if h.log.full() {
		return nil
	}
	var m abi.LogRequest
	if err := decode(ctx, request, &m); err != nil {
		return err
	}
	logger := h.log.logger
	if m.Severity == abi.LogRequest_SEVERITY_DEBUG {
		if logger = logger.V(debugLevel); !logger.Enabled() {
			return nil
		}
	}
	if !h.log.allow(min(len(request), abi.MaxLogMessageBytes)) {
		return nil
	}
	about := opcontext.FromContext(ctx)
	if about.Name != 0 {
		logger = logger.WithValues("op", about.Name.String(), "generation", about.Generation)
	}
	if object := about.Object; object != nil {
		logger = logger.WithValues("kind", object.Kind, "object", klog.KRef(object.Namespace, object.Name))
	}
	message, values := logLine(&m, h.options.Scrub)
	switch m.Severity {
	case abi.LogRequest_SEVERITY_ERROR:
		logger.Error(nil, message, values...)
	case abi.LogRequest_SEVERITY_WARNING:
		logger.Info(message, append(values, "severity", "warning")...)
	default:
		logger.Info(message, values...)
	}
	return nil
}

// logLine returns the message and the key/value pairs of a line, cut to
// abi.MaxLogMessageBytes together, and escaped. The keys follow logKeys.
func logLine(m *abi.LogRequest, scrub func(string) string) (message string, values []any) {
	left, truncated := abi.MaxLogMessageBytes, false
	take := func(s string) string {
		s = scrub(s)
		short := text.Cut(s, left)
		truncated = truncated || len(short) < len(s)
		escaped := text.Escape(short)
		short = text.Cut(escaped, left)
		truncated = truncated || len(short) < len(escaped)
		left -= len(short)
		return short
	}
	message = take(m.Message)
	keys := logKeys{}
	for i, kv := range m.Values {
		if i == maxLogValues || left == 0 {
			truncated = true
			break
		}
		key := keys.next(scrub(kv.Key))
		left = max(0, left-len(key))
		values = append(values, key, take(kv.Value))
	}
	if truncated {
		values = append(values, "truncated", true)
	}
	return message, values
}

// Output returns a writer for the standard output or error of the provider's instances:
// lines for the log, of at most 4 KiB, dropped over the log's rate. It is safe for
// concurrent use and never fails.
func (h *Host) Output(stream string) io.Writer {
	logger := h.log.logger.WithValues("stream", stream)
	return &lineWriter{emit: func(line []byte) {
		if h.log.allow(len(line)) {
			logger.Info(text.Escape(h.log.scrub(string(line))))
		}
	}}
}
