package brake

import corev1 "k8s.io/api/core/v1"

// Reason says in one word why a Node stays.
type Reason string

// The reasons. Of ReasonGrace nobody is told: each Node has its grace period.
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

// Hold is why a Node stays that the provider says is gone. Message goes on
// after "the provider says that the machine does not exist, and the Node stays:".
type Hold struct {
	Reason  Reason
	Message string
	soon    bool // an answer is on its way
	// later: the provider has said when it can be asked again (api.RetryError). On a
	// cloud that takes some seconds that is each healthy answer.
	later bool
}

// Who contradicted a provider.
const (
	ByInstance = "instance" // a fresh instance of it
	ByKubelet  = "kubelet"  // which lives on
	ByWitness  = "witness"  // Nodes that are Ready
)

// What the brake needs of the API server.
const (
	FailedRecord     = "record"
	FailedHeartbeats = "heartbeats"
	FailedLift       = "annotation"
)

// Observer hears what the brake does. Its methods must be safe for concurrent
// use and must not block or call the brake.
type Observer interface {
	// Held is told of a Node that stays, once for each reason.
	Held(node *corev1.Node, hold Hold)
	// LetGo is told of a Node that goes; again when its deletion failed.
	LetGo(node *corev1.Node)
	// Contradicted is told when what the provider says is not so.
	Contradicted(node *corev1.Node, by string)
	// Engaged is told when Nodes begin, and when they have ceased, to wait for
	// permits.
	Engaged(status Status)
	// Failed is told when one of FailedRecord, FailedHeartbeats and FailedLift
	// begins to fail, and with nil when it works again.
	Failed(what string, err error)
	// Seen is told how things are, once a second at most.
	Seen(status Status)
}

type nobody struct{}

func (nobody) Held(*corev1.Node, Hold)           {}
func (nobody) LetGo(*corev1.Node)                {}
func (nobody) Contradicted(*corev1.Node, string) {}
func (nobody) Engaged(Status)                    {}
func (nobody) Failed(string, error)              {}
func (nobody) Seen(Status)                       {}
