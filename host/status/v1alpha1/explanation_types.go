package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds that why knows.
const (
	KindService  = "Service"
	KindNode     = "Node"
	KindRoute    = "Route" // by the name of its Node
	KindVolume   = "PersistentVolume"
	KindProvider = "Provider"
)

// The kinds of a provider's source.
const (
	KindConfigMap = "ConfigMap"
	KindImage     = "Image"
	KindDirectory = "Directory"
)

// State says in one word how an object stands.
type State string

// The states.
const (
	// StateDone: everything is as the object says.
	StateDone State = "Done"
	// StateProgressing: work goes on, and needs nobody.
	StateProgressing State = "Progressing"
	// StateStuck: it does not go on, or fails again and again.
	StateStuck State = "Stuck"
	// StateIgnored: the object is not for this manager.
	StateIgnored State = "Ignored"
)

// Explanation says why an object is as it is: its state, what holds it back, and
// what to do.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	Object          Object `json:"object"`
	// Provider is whose the object is; "" if it is nobody's.
	Provider string `json:"provider,omitempty"`
	State    State  `json:"state"`
	// Cause is why, in one word, such as NoProvider or BackedOff; "" of StateDone.
	Cause string `json:"cause,omitempty"`
	// Message says the same in a sentence, with what the cloud said.
	Message string `json:"message"`
	// Since is when it began to be so; absent if that is not known.
	Since metav1.Time `json:"since,omitzero"`
	// Asked is the last op about the object; nil if the provider was not asked
	// since this manager began to lead.
	Asked *Op `json:"asked,omitempty"`
	// WaitsFor is what goes on, or comes next, by itself; "" if nothing does.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Next is what a person can do, the best first.
	Next []Step `json:"next,omitempty"`
	// Also are further things that hold the object back, or soon will.
	Also []Finding `json:"also,omitempty"`
}

// Object names what is explained.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Finding is one thing that holds an object back.
type Finding struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
}

// Step is something to do.
type Step struct {
	// What says it in words.
	What string `json:"what"`
	// Command is a line for the shell; "" if there is none. In capitals is what
	// to fill in.
	Command string `json:"command,omitempty"`
}

// Op is one request to the module.
type Op struct {
	// Name is that of the ABI, such as lb_ensure.
	Name string `json:"name"`
	// At is when it began, Took how long it has taken.
	At   metav1.Time     `json:"at"`
	Took metav1.Duration `json:"took"`
	// Running says that it goes on; then Code is "".
	Running bool `json:"running,omitempty"`
	// Code is ok, the code of the module's answer, such as unavailable, or
	// no_answer: a crash, or its time was over.
	Code string `json:"code,omitempty"`
	// Message is what the module said, often with what the cloud said; of ok that it
	// exists, or does not.
	Message string `json:"message,omitempty"`
	// Generation is that of the module that was asked; 0 if that is not known.
	Generation int64 `json:"generation,omitempty"`
	// RetryAfter is when the module wants to be asked again; 0: it did not say.
	RetryAfter metav1.Duration `json:"retryAfter,omitzero"`
}

// ObjectOp is an op, and what it was about.
type ObjectOp struct {
	Object Object `json:"object"`
	Op     `json:",inline"`
}

// CodeNoAnswer is the code of an op without an answer.
const CodeNoAnswer = "no_answer"

// End is when the op ended, or the time of the answer of one that goes on.
func (o *Op) End() time.Time { return o.At.Add(o.Took.Duration) }
