package brake

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Annotations of a Node.
const (
	// NodeDeletionAnnotation has the value Never or Unbraked.
	NodeDeletionAnnotation = "wasm-ccm.dev/node-deletion"
	// Never keeps the Node, whatever the provider says.
	Never = "Never"
	// Unbraked lets it go without a permit and without a witness.
	Unbraked = "Unbraked"
	// GracePeriodAnnotation is how long the Node must be gone and silent, as
	// 30m or 12h; up to a day. Less than Settle counts as Settle.
	GracePeriodAnnotation = "wasm-ccm.dev/node-deletion-grace-period"
)

const (
	// maxGrace bounds what an annotation may ask for.
	maxGrace = 24 * time.Hour
	// newNodeGrace is the grace period of a Node that the provider has never known: its machine
	// may exist before the inventory or the cloud shows it. A kubelet registers once and does
	// not come back.
	newNodeGrace = 15 * time.Minute
)

// terms are the rules for one Node.
type terms struct {
	never, unbraked bool
	grace           time.Duration
}

// ownTerms reads a Node's annotations. After an error the Node stays.
func ownTerms(node *corev1.Node, settle time.Duration) (terms, error) {
	own := terms{grace: settle}
	// Invariant N7 (host/SECURITY.md): a machine that was never seen is not gone.
	if !known(node) {
		own.grace = max(settle, newNodeGrace)
	}
	switch value, ok := node.Annotations[NodeDeletionAnnotation]; {
	case !ok:
	case value == Never:
		own.never = true
	case value == Unbraked:
		own.unbraked = true
	default:
		own.never = true
		return own, fmt.Errorf("its annotation %s must be %s or %s, not %s", NodeDeletionAnnotation, Never, Unbraked, text.Quote(value))
	}
	if value, ok := node.Annotations[GracePeriodAnnotation]; ok {
		grace, err := time.ParseDuration(value)
		if err != nil || grace < 0 || grace > maxGrace {
			own.never = true
			return own, fmt.Errorf("its annotation %s must be a time such as 30m, up to %v, not %s", GracePeriodAnnotation, maxGrace, text.Quote(value))
		}
		own.grace = max(grace, settle)
	}
	return own, nil
}

// known reports whether the provider has ever known the Node: it was initialised.
func known(node *corev1.Node) bool {
	return node.Spec.ProviderID != "" && !tainted(node, cloudproviderapi.TaintExternalCloudProvider)
}

func tainted(node *corev1.Node, keys ...string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
}

// marked reports whether another component is deleting the Node: the cluster autoscaler,
// Karpenter, or a user who deletes the object. Cluster API marks all Nodes of an old
// revision, and cordons the one that it drains. A provider cannot set taints, and a kubelet
// only when it registers.
func marked(node *corev1.Node) bool {
	return node.DeletionTimestamp != nil ||
		tainted(node, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted") ||
		node.Spec.Unschedulable && tainted(node, "node.cluster.x-k8s.io/outdated-revision")
}

// Labels of the control plane's Nodes, today's and that of old clusters.
const (
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	labelMaster       = "node-role.kubernetes.io/master"
)

func controls(node *corev1.Node) bool {
	_, now := node.Labels[labelControlPlane]
	_, old := node.Labels[labelMaster]
	return now || old
}

// quorum holds a Node while no other Node of the provider is Ready, and a Node of the
// control plane unless as many of these are Ready as are not.
func (b *Brake) quorum(_ context.Context, node *corev1.Node, c *candidate) *Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	var hold *Hold
	switch {
	case b.census.ready == 0:
		hold = holdf(ReasonNoWitness, "no other Node of the provider is Ready, and the last ones stay")
	case controls(node) && b.census.here < b.census.away:
		hold = holdf(ReasonControlPlane, "of the control plane's Nodes %d are Ready and %d are not; none goes before half of them are Ready", b.census.here, b.census.away)
	default:
		return nil
	}
	c.counts = false // it is in nobody's way
	return hold
}

// census counts the Nodes of the cluster: all, the Ready ones, and the Ready and not Ready
// ones of the control plane.
type census struct{ size, ready, here, away int }

func count(nodes []*corev1.Node) (n census) {
	n.size = len(nodes)
	for _, node := range nodes {
		is := ready(node)
		if is {
			n.ready++
		}
		switch {
		case !controls(node):
		case is:
			n.here++
		default:
			n.away++
		}
	}
	return n
}
