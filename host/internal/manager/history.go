package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/lru"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Bounds of a history: of its objects, and of a text in bytes. The least
// recently used objects are dropped first.
const (
	maxRemembered      = 8192
	maxRememberedBytes = 512
)

// history keeps one provider's last op about each object, and its control
// loop's last result. Running and held back ops are known to async.Invoker. It
// is safe for concurrent use.
type history struct {
	asked *lru.Cache // askedOp by askedKey
	heard *lru.Cache // heardCall by heardKey
	// latest is the op that ended last.
	latest atomic.Pointer[v1alpha1.ObjectOp]
	// taken is the time of the last takeover; nil: the first generation serves.
	taken atomic.Pointer[time.Time]
}

// existences are the answers of ops without an error.
var existences = map[abi.Existence]string{
	abi.Existence_EXISTENCE_EXISTS: "it exists", abi.Existence_EXISTENCE_DOES_NOT_EXIST: "it does not exist",
}

type askedKey struct {
	op   abi.Op
	name string
}

type askedOp struct {
	uid types.UID
	op  v1alpha1.Op
}

type heardKey struct{ kind, name string }

type heardCall struct {
	uid   types.UID
	began time.Time
	last  explain.Heard
}

func newHistory() *history {
	return &history{asked: lru.New(maxRemembered), heard: lru.New(maxRemembered)}
}

// replaced is called when another generation serves. Earlier results do not
// count against it.
func (h *history) replaced() {
	now := time.Now()
	h.taken.Store(&now)
}

// old reports whether a call at that time may have gone to the previous generation.
func (h *history) old(at time.Time) bool {
	taken := h.taken.Load()
	return taken != nil && at.Before(*taken)
}

// ended records the end of an op, with a scrubbed error; the answer is read if
// there is none.
func (h *history) ended(ctx context.Context, op abi.Op, began time.Time, answer abi.Message, err error) {
	about := opcontext.FromContext(ctx)
	object := about.Object
	if object == nil || op == abi.OpLoadBalancerName {
		return
	}
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	out := v1alpha1.Op{Name: op.String(), At: metav1.NewTime(began), Took: metav1.Duration{Duration: time.Since(began)}, Code: abi.CodeOK.String(), Generation: about.Generation}
	if err == nil {
		switch said := answer.(type) {
		case *abi.InstanceExistsResponse:
			out.Message = existences[said.Existence]
		case *abi.LoadBalancerGetResponse:
			out.Message = existences[said.Existence]
		}
	}
	if err != nil {
		// Invariant V3 (host/SECURITY.md): the error is scrubbed (scrubbed.clean, plugin.Crash), and cut.
		out.Code, out.Message = v1alpha1.CodeNoAnswer, text.Line(err.Error(), maxRememberedBytes)
		if answer, ok := errors.AsType[*abi.Error](err); ok {
			out.Code, out.RetryAfter = answer.Code.String(), metav1.Duration{Duration: answer.RetryAfter}
		}
	}
	h.asked.Add(askedKey{op, name}, askedOp{object.UID, out})
	h.latest.Store(&v1alpha1.ObjectOp{Object: v1alpha1.Object{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}, Op: out})
}

// last returns the last op of a group about an object; nil without one.
func (h *history) last(group abi.Group, name string, uid types.UID) (last *v1alpha1.Op) {
	for _, op := range group.Ops() {
		found, ok := h.asked.Get(askedKey{op, name})
		if !ok {
			continue
		}
		asked := found.(askedOp)
		if (asked.uid == uid || asked.uid == "" || uid == "") && (last == nil || asked.op.At.After(last.At.Time)) {
			last = &asked.op
		}
	}
	return last
}

// told records the result of a control loop's call.
func (h *history) told(call controllers.Call) {
	if errors.Is(call.Err, context.Canceled) {
		return // the loop stops
	}
	key, now := heardKey{call.Kind, call.Name}, time.Now()
	next := heardCall{call.UID, call.Began, explain.Heard{Op: call.Op, At: now, Since: now}}
	if call.Err != nil {
		next.last.Cause, next.last.Code, next.last.RetryAfter = causeOf(call.Err)
		next.last.Message = text.Line(call.Err.Error(), maxRememberedBytes)
	}
	if found, ok := h.heard.Get(key); ok {
		before := found.(heardCall)
		if before.uid == call.UID && before.last.Cause != "" && before.last.Op != call.Op && (call.Op == "get" && call.Err == nil || call.Op == "update") {
			return // upstream also updates Services without a load balancer: the earlier failure still counts
		}
		if before.uid == call.UID && (before.last.Cause == "") == (next.last.Cause == "") && !h.old(before.began) {
			next.last.Since = before.last.Since
		}
	}
	h.heard.Add(key, next)
}

// heardOf returns the loop's last result about an object; nil without one.
func (h *history) heardOf(kind, name string, uid types.UID) *explain.Heard {
	found, ok := h.heard.Get(heardKey{kind, name})
	if !ok || found.(heardCall).uid != uid {
		return nil
	}
	last := found.(heardCall).last
	// Invariant V8 (host/SECURITY.md): the previous generation's failure is not
	// attributed to the serving one.
	if last.Cause != "" && h.old(found.(heardCall).began) {
		return &explain.Heard{Op: last.Op, At: last.At, Since: *h.taken.Load(), Cause: report.NotAskedYet}
	}
	return &last
}

// causeOf returns the cause of a failed call in one word, and the code of the provider's answer.
func causeOf(err error) (cause, code string, retryAfter time.Duration) {
	var answer *abi.Error
	if errors.As(err, &answer) {
		code = answer.Code.String()
	}
	var retry *cloudproviderapi.RetryError
	var refused *addresses.Error
	var crash *plugin.Crash
	switch {
	case errors.As(err, &retry):
		return report.Postponed, code, retry.RetryAfter()
	case errors.As(err, &refused):
		return report.AddressRefused, code, 0
	case apierrors.IsForbidden(err):
		return report.Forbidden, code, 0
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return report.MachineUnknown, abi.CodeInstanceNotFound.String(), 0
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return report.ImplementedElsewhere, abi.CodeImplementedElsewhere.String(), 0
	case errors.Is(err, cloudprovider.NotImplemented):
		return report.NotImplemented, abi.CodeNotImplemented.String(), 0
	case errors.Is(err, plugin.ErrNotServing):
		return report.NothingServes, "", 0
	case errors.As(err, &crash), errors.Is(err, context.DeadlineExceeded):
		return report.NoAnswer, v1alpha1.CodeNoAnswer, 0
	case answer != nil:
		return causes(answer.Code), code, 0
	}
	return report.Failed, "", 0
}

// causes of the codes that mean more than a failure of the provider.
func causes(code abi.Code) string {
	switch code {
	case abi.CodeDenied:
		return report.NotGranted
	case abi.CodeUnauthenticated:
		return report.CredentialsRefused
	case abi.CodeUnavailable, abi.CodeDeadline:
		return report.CloudUnavailable
	case abi.CodeThrottled:
		return report.Throttled
	case abi.CodeInvalid:
		return report.Refused
	}
	return report.Failed
}
