// Package explain explains the state of an object to people, from facts that
// the manager has gathered. It sends no requests and changes nothing.
package explain

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Heard is the last result of a control loop's call about an object.
type Heard struct {
	// Op is the loop's op.
	Op string
	// At is its time, Since the beginning of an unbroken row of errors, or of successes.
	At, Since time.Time
	// Cause is one of the constants; "" for success.
	Cause   string
	Message string
	// Code is the code of the provider's answer; "" without one.
	Code string
	// RetryAfter is the delay until the next attempt, from At; 0 if unknown.
	RetryAfter time.Duration
}

// Failing is an op without an answer.
type Failing struct {
	Op       string
	Failures int
	Last     string
	At       time.Time
	// Until is the time of the next call to the provider.
	Until time.Time
}

// Held is a Node that the provider reports as gone, and that stays.
type Held struct {
	Reason, Message string
	Since           time.Time
	// Until is the expected end; zero: unknown.
	Until time.Time
	// Lifts: lifting the brake would release the Node.
	Lifts bool
}

// Facts are the manager's knowledge beyond the object itself.
type Facts struct {
	// Now is the time of the manager's clock, Namespace that of its ConfigMaps.
	Now       time.Time
	Namespace string
	// Providers are the configured ones, Provider is the object's; nil: it has
	// none.
	Providers []string
	Provider  *v1alpha1.Provider
	// Advice is why the object has no provider, and what to do; "" if it needs none.
	Advice string
	// OtherChoice is the mark on a Service that selects another provider.
	OtherChoice string
	Running     *v1alpha1.Op
	// RunsUntil is the deadline of the running op.
	RunsUntil time.Time
	Asked     *v1alpha1.Op
	Failing   *Failing
	Heard     *Heard
	Held      *Held
	// ReadyNodes is the number of Nodes that a load balancer of the provider can have.
	ReadyNodes int
}

// Names of control loops, as in --controllers.
const (
	serviceLoop = "service-lb-controller"
	nodeLoop    = "cloud-node-controller"
	routeLoop   = "node-route-controller"
	volumeLoop  = "persistentvolume-label"
)

// begin returns the explanation of an object without problems.
func begin(kind, namespace, name string, f Facts) v1alpha1.Explanation {
	e := v1alpha1.Explanation{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "Explanation"},
		Object:   v1alpha1.Object{Kind: kind, Namespace: namespace, Name: name},
		State:    v1alpha1.StateDone, Asked: f.Asked,
	}
	if f.Provider != nil {
		e.Provider = f.Provider.Name
	}
	if f.Running != nil {
		e.Asked = f.Running
	}
	return e
}

// bounded cuts all texts.
func bounded(e v1alpha1.Explanation) v1alpha1.Explanation {
	// Invariant M26 (host/SECURITY.md): every foreign text is one line within a limit.
	e.Message, e.WaitsFor = text.Line(e.Message, v1alpha1.MaxText), text.Line(e.WaitsFor, v1alpha1.MaxText)
	for i := range e.Next {
		e.Next[i].What, e.Next[i].Command = text.Line(e.Next[i].What, v1alpha1.MaxText), text.Line(e.Next[i].Command, v1alpha1.MaxText)
	}
	for i := range e.Also {
		e.Also[i].Message = text.Line(e.Also[i].Message, v1alpha1.MaxText)
	}
	return e
}

// is sets the main finding.
func is(e *v1alpha1.Explanation, state v1alpha1.State, cause, format string, args ...any) {
	e.State, e.Cause, e.Message = state, cause, fmt.Sprintf(format, args...)
}

// advise adds the register's next step for the cause.
func advise(e *v1alpha1.Explanation, f Facts) {
	if step := report.Find(e.Cause).Next.Fill(about(e, f)); step.What != "" {
		next(e, step.Command, "%s", step.What)
	}
}

// about are the values for commands.
func about(e *v1alpha1.Explanation, f Facts) report.Of {
	return report.Of{
		Manager: f.Namespace, Namespace: e.Object.Namespace, Name: e.Object.Name, Provider: e.Provider,
		Choice: oneOf(f.Providers), Digest: offered(f.Provider),
	}
}

func next(e *v1alpha1.Explanation, command, format string, args ...any) {
	e.Next = append(e.Next, v1alpha1.Step{What: fmt.Sprintf(format, args...), Command: command})
}

func since(e *v1alpha1.Explanation, t time.Time) {
	if !t.IsZero() {
		e.Since = metav1.NewTime(t)
	}
}

// idle explains why a provider gets no calls about any object of a loop, and
// reports whether that is so.
func idle(e *v1alpha1.Explanation, f Facts, loop string) bool {
	p := f.Provider
	if p.Serving == nil {
		is(e, v1alpha1.StateStuck, report.NothingServes, "provider %s serves no module: phase %s, reason %s: %s", p.Name, p.Phase, orNone(p.Reason), orNone(p.Message))
		since(e, p.Since.Time)
		advise(e, f)
		return true
	}
	at := slices.IndexFunc(p.Loops, func(l v1alpha1.Loop) bool { return l.Name == loop })
	switch {
	case at < 0:
		is(e, v1alpha1.StateStuck, report.LoopNotRunning, "the manager runs no %s: its flag --controllers leaves it out, or it is starting", loop)
		next(e, fmt.Sprintf("kubectl -n %s get daemonset,deployment cloud-controller-manager -o jsonpath='{..args}'", f.Namespace), "look at the manager's flags")
	case !p.Loops[at].Running:
		is(e, v1alpha1.StateStuck, report.LoopNotRunning, "the %s of provider %s does not run: %s", loop, p.Name, orNone(p.Loops[at].Reason))
		advise(e, f)
	default:
		return false
	}
	return true
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// asked explains an op that runs, or ended without an answer. It reports
// whether there is one.
func asked(e *v1alpha1.Explanation, f Facts) bool {
	failed := ""
	if x := f.Failing; x != nil {
		failed = fmt.Sprintf("%s has failed %d times in a row without an answer, the last time with: %s", x.Op, x.Failures, x.Last)
		since(e, x.At)
	}
	switch {
	case f.Failing != nil && f.Failing.Until.After(f.Now) && f.Running == nil:
		is(e, v1alpha1.StateStuck, report.BackedOff, "%s. So the provider is not asked again before %s", failed, clock(f.Failing.Until))
		e.WaitsFor = "the back-off ends in " + f.Failing.Until.Sub(f.Now).Round(time.Second).String() + ", and at once when another module or configuration serves"
		advise(e, f)
	case f.Failing != nil:
		is(e, v1alpha1.StateStuck, report.NoAnswer, "%s", failed)
		e.WaitsFor = "it is tried again"
		advise(e, f)
	case f.Running != nil:
		took := f.Now.Sub(f.Running.At.Time).Round(time.Second)
		is(e, v1alpha1.StateProgressing, report.InProgress, "%s has been running for %v", f.Running.Name, took)
		since(e, f.Running.At.Time)
		e.WaitsFor = "the module's answer; without one the op is ended at " + clock(f.RunsUntil) + " (providers[].ops)"
	default:
		return false
	}
	return true
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }
