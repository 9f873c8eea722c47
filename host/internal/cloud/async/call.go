package async

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// call is one Invoke.
type call struct {
	op     abi.Op
	req    abi.Message
	resp   abi.Message // the op's own: the caller may return and reuse its message
	object *corev1.ObjectReference
	// name is the object's, "" if the op has none.
	name string
	// key identifies the object on which only one op may run.
	key string
	// fresh calls go to a fresh instance.
	fresh bool
	// patient callers wait for the end; those inPass also for the other calls of the pass.
	patient, inPass bool
	at              time.Time
	// nodes is a digest of the op's nodes.
	nodes uint64

	// replaced counts the takeovers that ended this call's question. Only its caller writes it,
	// while no op of the call runs.
	replaced int

	// The following are guarded by Invoker.mu.
	long   bool          // the permit counts among the long ones
	permit bool          // the call may start an op
	turn   chan struct{} // closed at its turn; nil outside the queue
}

func newCall(ctx context.Context, seed maphash.Seed, prefix string, op abi.Op, req abi.Message) *call {
	about := opcontext.FromContext(ctx)
	c := &call{op: op, req: req, object: about.Object, key: prefix + about.Serial, fresh: prefix != "", patient: opcontext.IsPatient(ctx), inPass: opcontext.IsInPass(ctx), at: time.Now()}
	if o := about.Object; o != nil {
		c.name = o.Name
		if o.Namespace != "" {
			c.name = o.Namespace + "/" + o.Name
		}
	}
	if about.Serial == "" {
		c.key = prefix + op.String() + " " + c.name
	}
	for _, node := range about.Nodes {
		// A sum, as the order of the nodes is random. It covers the fields by which upstream decides
		// whether a load balancer needs other nodes.
		c.nodes += maphash.Comparable(seed, [3]string{node.Name, string(node.UID), node.Spec.ProviderID})
	}
	return c
}

// stays reports whether the caller waits on when the op takes unusually long, and then
// leaves instances to others.
func (c *call) stays() bool { return c.patient && !c.inPass }

func (c *call) group() abi.Group {
	switch {
	case c.fresh:
		return groupConfirmations
	case c.op == abi.OpLoadBalancerUpdate:
		return groupUpdates
	}
	return c.op.Group()
}

// same reports whether two calls ask the same question. Requests are compared before
// encoding, since encoded maps have no order.
func (c *call) same(other *call) bool {
	if c.op != other.op || c.nodes != other.nodes {
		return false
	}
	a, about := c.req.(*abi.InstanceRequest)
	b, both := other.req.(*abi.InstanceRequest)
	if about && both && a.Node != nil && b.Node != nil {
		return machineOf(a.Node) == machineOf(b.Node)
	}
	return reflect.DeepEqual(c.req, other.req)
}

// machineOf returns the fields that identify a Node's machine. Other fields change as often
// as each minute: a slow answer would never match.
func machineOf(n *abi.Node) [4]string {
	return [...]string{n.Name, n.Uid, n.ProviderId, n.SystemUuid}
}

func (c *call) about() string {
	if c.name == "" {
		return c.op.String()
	}
	return c.op.String() + " " + c.name
}

// emptyCopy returns a new message of the type of m.
func emptyCopy(m abi.Message) abi.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(abi.Message)
}

// reply is the message or error that a call returns. It is immutable.
type reply struct {
	data []byte
	err  error
	// replaced: a takeover ended the op.
	replaced bool
}

func (r *reply) into(resp abi.Message) error {
	if r.err != nil {
		return r.err
	}
	reflect.ValueOf(resp).Elem().SetZero()
	return resp.UnmarshalVT(r.data)
}

// The bounds of the retry delay for an op in the background, and the delay after a refusal
// for lack of room.
const (
	minRetry  = time.Second
	maxRetry  = 15 * time.Second
	busyRetry = 5 * time.Second
)

func retryAfter(delay time.Duration, format string, args ...any) *reply {
	return &reply{err: &abi.Error{Code: abi.CodeRetryAfter, RetryAfter: delay, Message: fmt.Sprintf(format, args...)}}
}

// busy is the error of a call refused for lack of room.
func (i *Invoker) busy(c *call, why string) error {
	i.options.Observer.Busy(c.op)
	return busyReply(why).err
}

func busyReply(why string) *reply {
	return retryAfter(busyRetry, "the provider is busy: %s; more room: providers[].limits.instances of the HostConfiguration", why)
}
