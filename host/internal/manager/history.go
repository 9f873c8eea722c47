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
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Bounds of a history: how many objects it remembers, and how many bytes of a text. Those
// that were asked about longest ago are forgotten first.
const (
	maxRemembered      = 8192
	maxRememberedBytes = 512
)

// history remembers of one provider the last op about each object, and what its
// control loop was told last. What runs, and what is held back, async.Invoker
// knows. It is safe for concurrent use.
type history struct {
	asked *lru.Cache // of askedOp, by askedKey
	heard *lru.Cache // of heardCall, by heardKey
	// latest is the op that ended last.
	latest atomic.Pointer[v1alpha1.ObjectOp]
	// taken is when another generation began to serve; nil: the first one does.
	taken atomic.Pointer[time.Time]
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

// replaced is told that another generation serves. What was learned before is not
// held against it.
func (h *history) replaced() {
	now := time.Now()
	h.taken.Store(&now)
}

// old reports whether the generation before may have been asked at that time.
func (h *history) old(at time.Time) bool {
	taken := h.taken.Load()
	return taken != nil && at.Before(*taken)
}

// ended is told how an op ended, whose error is scrubbed.
func (h *history) ended(ctx context.Context, op abi.Op, began time.Time, err error) {
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
	var answer *abi.Error
	switch {
	case errors.As(err, &answer):
		out.Code, out.RetryAfter = answer.Code.String(), metav1.Duration{Duration: answer.RetryAfter}
	case err != nil:
		out.Code = v1alpha1.CodeNoAnswer
	}
	// Invariant V3 (host/SECURITY.md): the error is scrubbed (scrubbed.clean, plugin.Crash), and cut.
	if err != nil {
		out.Message = text.Line(err.Error(), maxRememberedBytes)
	}
	h.asked.Add(askedKey{op, name}, askedOp{object.UID, out})
	h.latest.Store(&v1alpha1.ObjectOp{Object: v1alpha1.Object{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}, Op: out})
}

// last returns the last op of a group about an object; nil if there was none.
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

// told is told how a call of a control loop ended.
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
		if before.uid == call.UID && before.last.Cause != "" && before.last.Op != call.Op && (call.Op == "get" || call.Op == "update") {
			return // upstream updates Services, too, of which nothing was made yet: what failed still does
		}
		if before.uid == call.UID && (before.last.Cause == "") == (next.last.Cause == "") && !h.old(before.began) {
			next.last.Since = before.last.Since
		}
	}
	h.heard.Add(key, next)
}

// heardOf returns what the loop was told last of an object; nil if nothing was.
func (h *history) heardOf(kind, name string, uid types.UID) *explain.Heard {
	found, ok := h.heard.Get(heardKey{kind, name})
	if !ok || found.(heardCall).uid != uid {
		return nil
	}
	last := found.(heardCall).last
	// Invariant V8 (host/SECURITY.md): why the generation before failed is not told of
	// the one that serves.
	if last.Cause != "" && h.old(found.(heardCall).began) {
		return &explain.Heard{Op: last.Op, At: last.At, Since: *h.taken.Load(), Cause: explain.NotAskedYet}
	}
	return &last
}

// causeOf says in one word why a call failed, and which code the provider answered.
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
		return explain.Postponed, code, retry.RetryAfter()
	case errors.As(err, &refused):
		return explain.AddressRefused, code, 0
	case apierrors.IsForbidden(err):
		return explain.Forbidden, code, 0
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return explain.MachineUnknown, abi.CodeInstanceNotFound.String(), 0
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return explain.ImplementedElsewhere, abi.CodeImplementedElsewhere.String(), 0
	case errors.Is(err, cloudprovider.NotImplemented):
		return explain.NotImplemented, abi.CodeNotImplemented.String(), 0
	case errors.Is(err, plugin.ErrNotServing):
		return explain.NothingServes, "", 0
	case errors.As(err, &crash), errors.Is(err, context.DeadlineExceeded):
		return explain.NoAnswer, v1alpha1.CodeNoAnswer, 0
	case answer != nil:
		return causes(answer.Code), code, 0
	}
	return explain.Failed, "", 0
}

// causes of the codes that say more than that the provider failed.
func causes(code abi.Code) string {
	switch code {
	case abi.CodeDenied:
		return explain.NotGranted
	case abi.CodeUnauthenticated:
		return explain.CredentialsRefused
	case abi.CodeUnavailable, abi.CodeDeadline:
		return explain.CloudUnavailable
	case abi.CodeThrottled:
		return explain.Throttled
	case abi.CodeInvalid:
		return explain.Refused
	}
	return explain.Failed
}
