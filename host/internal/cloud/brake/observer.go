package brake

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reason says in one word why a Node stays.
type Reason string

// The reasons. ReasonGrace is not reported: each Node has its grace period.
const (
	ReasonGrace         Reason = "GracePeriod"
	ReasonNotInCluster  Reason = "NotInCluster"
	ReasonBadAnnotation Reason = "BadAnnotation"
	ReasonNever         Reason = "Never"
	ReasonNotYetKnown   Reason = "NotYetKnown"
	ReasonAlive         Reason = "KubeletAlive"
	ReasonNoHeartbeats  Reason = "KubeletUnknown"
	ReasonControlPlane  Reason = "ControlPlane"
	ReasonNoPermit      Reason = "NoPermit"
	ReasonNoWitness     Reason = "NoWitness"
	ReasonUnconfirmed   Reason = "Unconfirmed"
	ReasonNoRecord      Reason = "NoRecord"
)

// Lifts reports whether Unbraked, or lifting the brake for all, releases a Node that stays
// for this reason, because either skips its check.
func (r Reason) Lifts() bool {
	switch r {
	case ReasonControlPlane, ReasonNoPermit, ReasonNoWitness, ReasonNoRecord:
		return true
	}
	return false
}

// Hold is why a Node that is gone for the provider stays. Message continues "the provider
// says that the machine does not exist, and the Node stays:".
type Hold struct {
	Reason  Reason
	Message string
	// Until is the expected end, as in Message; zero if unknown.
	Until time.Time
	soon  bool // an answer is on its way
	// later: the provider said when to ask again (api.RetryError). On a slow cloud that is each
	// healthy answer.
	later bool
}

// Sources of a contradiction.
const (
	ByInstance = "instance" // a fresh instance of the provider
	ByKubelet  = "kubelet"  // still alive
	ByWitness  = "witness"  // Ready Nodes
)

// The requests of the brake to the API server.
const (
	FailedRecord     = "record"
	FailedHeartbeats = "heartbeats"
	FailedLift       = "annotation"
)

// Observer hears what the brake does. Its methods must be safe for concurrent
// use and must not block or call the brake.
type Observer interface {
	// Held is told of a Node that stays, once per reason.
	Held(node *corev1.Node, hold Hold)
	// Explain is told the same for people, and again when Until changes. It reports whether it
	// could tell them; else it is called again.
	Explain(node *corev1.Node, hold Hold) bool
	// LetGo is told of a Node that goes; again after a failed deletion.
	LetGo(node *corev1.Node)
	// Contradicted is told of a false statement of the provider.
	Contradicted(node *corev1.Node, by string)
	// Engaged is told when Nodes begin to wait for permits, and when none has waited for a
	// while.
	Engaged(status Status)
	// Failed is told when one of FailedRecord, FailedHeartbeats and FailedLift
	// begins to fail, and with nil when it works again.
	Failed(what string, err error)
	// Seen is told the state, once a second at most.
	Seen(status Status)
}

type nobody struct{}

func (nobody) Held(*corev1.Node, Hold)           {}
func (nobody) Explain(*corev1.Node, Hold) bool   { return true }
func (nobody) LetGo(*corev1.Node)                {}
func (nobody) Contradicted(*corev1.Node, string) {}
func (nobody) Engaged(Status)                    {}
func (nobody) Failed(string, error)              {}
func (nobody) Seen(Status)                       {}
