package manager

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Calls implements statusapi.Source.
func (s *statusSource) Calls(provider string) (*v1alpha1.Calls, error) {
	out := &v1alpha1.Calls{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "Calls"}, Time: metav1.Now(), Manager: s.self(),
		Latest: []v1alpha1.Call{}, Counts: []v1alpha1.CallCount{},
	}
	found := provider == ""
	for _, one := range s.manager.all() {
		if provider != "" && provider != one.name {
			continue
		}
		found = true
		told := toldCalls{one.name, one.allowed.scrub}
		for _, c := range one.calls.Latest() {
			out.Latest = append(out.Latest, told.call(c))
		}
		for _, n := range one.calls.Counts() {
			out.Counts = append(out.Counts, told.count(n))
		}
	}
	if !found {
		return nil, s.noProvider(provider)
	}
	boundCalls(out)
	return out, nil
}

// boundCalls drops calls above the size of an answer, equally for all providers.
//
// Invariant V4 (host/SECURITY.md): the number of calls in an answer is bounded.
func boundCalls(c *v1alpha1.Calls) {
	slices.SortStableFunc(c.Latest, func(a, b v1alpha1.Call) int { return b.End().Compare(a.End()) })
	slices.SortStableFunc(c.Counts, func(a, b v1alpha1.CallCount) int { return cmp.Compare(b.Total.Duration, a.Total.Duration) })
	c.Latest = c.Latest[:min(len(c.Latest), v1alpha1.MaxCalls)]
	c.Counts = c.Counts[:min(len(c.Counts), v1alpha1.MaxCallCounts)]
}

// toldCalls are the calls of a provider as the API shows them.
//
// Invariant V4 (host/SECURITY.md): paths have no ids; paths and hosts are the
// provider's texts, and scrubbed again, for secrets newer than the call.
type toldCalls struct {
	provider string
	scrub    func(string) string
}

func (t toldCalls) call(c calls.Call) v1alpha1.Call {
	return v1alpha1.Call{
		Provider: t.provider, Number: c.Number, At: metav1.NewMicroTime(c.Time), Took: metav1.Duration{Duration: c.Duration},
		CallKind: t.kind(c.Op, c.Host, c.Method, c.PathTemplate, c.Result), Object: text.Line(c.Object, v1alpha1.MaxText),
		Generation: c.Generation, Status: c.Status, SentBytes: c.SentBytes, ReceivedBytes: c.ReceivedBytes,
	}
}

func (t toldCalls) count(n calls.Count) v1alpha1.CallCount {
	return v1alpha1.CallCount{
		Provider: t.provider, CallKind: t.kind(n.Op, n.Host, n.Method, n.PathTemplate, n.Result), Calls: n.Calls,
		Total: metav1.Duration{Duration: n.Duration}, Longest: metav1.Duration{Duration: n.Longest}, Last: metav1.NewTime(n.Last),
	}
}

func (t toldCalls) kind(op, host, method, path, result string) v1alpha1.CallKind {
	line := func(s string) string { return text.Line(t.scrub(s), v1alpha1.MaxPath) }
	return v1alpha1.CallKind{Op: op, Host: line(host), Method: line(method), Path: line(path), Result: result}
}
