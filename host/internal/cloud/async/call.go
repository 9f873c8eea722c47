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
	run    opcontext.InvokeFunc
	req    abi.Message
	resp   abi.Message // the op's own: the caller may leave with its
	object *corev1.ObjectReference
	// name is that of the object, "" when the op has none.
	name string
	// key is what the op must have to itself.
	key string
	// fresh: a fresh instance is asked.
	fresh bool
	// nodes is a digest of the nodes of the op.
	nodes uint64

	// Both are guarded by Invoker.mu.
	permit bool    // the call may start an op
	place  *waiter // in the queue for a permit
}

func newCall(ctx context.Context, seed maphash.Seed, prefix string, op abi.Op, req abi.Message) *call {
	about := opcontext.FromContext(ctx)
	c := &call{op: op, req: req, object: about.Object, key: prefix + about.Serial, fresh: prefix != ""}
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
		// A sum, as the order of the nodes is random. What upstream itself
		// looks at to see whether a load balancer needs other nodes.
		c.nodes += maphash.Comparable(seed, [3]string{node.Name, string(node.UID), node.Spec.ProviderID})
	}
	return c
}

func (c *call) group() abi.Group {
	if c.fresh {
		return groupConfirmations
	}
	return c.op.Group()
}

// same reports whether two calls ask the same. Requests are compared, not what
// they are encoded to: labels and annotations are in no order there.
func (c *call) same(other *call) bool {
	if c.op != other.op || c.nodes != other.nodes {
		return false
	}
	a, about := c.req.(*abi.InstanceRequest)
	b, both := other.req.(*abi.InstanceRequest)
	if about && both && a.Node != nil && b.Node != nil {
		return machineOf(a.Node) == machineOf(b.Node)
	}
	return c.req.EqualMessageVT(other.req)
}

// machineOf is what a question about a Node is about. The rest of the Node others
// write, some of them each minute: an answer that takes longer would never come.
func machineOf(n *abi.Node) [4]string {
	return [...]string{n.Name, n.Uid, n.ProviderId, n.SystemUuid}
}

func (c *call) about() string {
	if c.name == "" {
		return c.op.String()
	}
	return c.op.String() + " " + c.name
}

// outlives reports whether a result holds for the generation after the one that
// it is of: what was changed in the cloud is. A failure is not.
func outlives(op abi.Op, r *reply) bool { return op.Writes() && r.err == nil }

func encode(m abi.Message) ([]byte, error) {
	data := make([]byte, m.SizeVT())
	n, err := m.MarshalToSizedBufferVT(data)
	return data[len(data)-n:], err
}

// emptyCopy returns a new message of the type of m.
func emptyCopy(m abi.Message) abi.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(abi.Message)
}

// reply is what a call gets: a message or an error. It is not changed.
type reply struct {
	data []byte
	err  error
}

func (r *reply) into(resp abi.Message) error {
	if r.err != nil {
		return r.err
	}
	resp.Reset()
	return resp.UnmarshalVT(r.data)
}

// The bounds of how soon to ask again for an op in the background, and when to
// ask again for one that there was no room for.
const (
	minRetry  = time.Second
	maxRetry  = 15 * time.Second
	busyRetry = 5 * time.Second
)

func retryAfter(delay time.Duration, format string, args ...any) *reply {
	return &reply{err: &abi.Error{Code: abi.CodeRetryAfter, RetryAfter: delay, Message: fmt.Sprintf(format, args...)}}
}

// busy is the error of a call for which there is no room.
func (i *Invoker) busy(c *call, why string) error {
	i.options.Observer.Busy(c.op)
	return busyReply(why).err
}

func busyReply(why string) *reply {
	return retryAfter(busyRetry, "the provider is busy: %s; more room: providers[].limits.instances of the HostConfiguration", why)
}
