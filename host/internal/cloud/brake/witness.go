package brake

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// jury is the Nodes of one zone that are Ready, of which the provider is asked
// as if they were missing: one that knows none of them knows nothing.
type jury struct {
	at     time.Time
	nodes  []*corev1.Node // that are to be asked about
	asked  int
	exists bool
}

const (
	// jurySize is how many are asked about at most. One that the provider knows
	// is enough: others may have lost their machine a moment ago.
	jurySize = 3
	// juryTime is how long an answer counts, and how long is waited for one.
	juryTime = 2 * time.Minute
	// maxJuries bounds how many zones are remembered.
	maxJuries = 64
)

// witnessed holds a Node while the provider knows no other that is there.
func (b *Brake) witnessed(ctx context.Context, node *corev1.Node, _ *candidate) *Hold {
	j := b.jury(node)
	for {
		b.mu.Lock()
		verdict, next := *j, (*corev1.Node)(nil)
		if len(j.nodes) > 0 {
			next = j.nodes[0]
		}
		b.mu.Unlock()
		switch {
		case verdict.exists:
			return nil
		case next == nil && verdict.asked > 0:
			return holdf(ReasonNoWitness, "the provider says of %d Nodes which are Ready that they do not exist", verdict.asked)
		case next == nil:
			return holdf(ReasonNoWitness, "no Node that is Ready has been initialised by the provider, so none can be asked about")
		}
		exists, err := b.InstanceExistsFresh(ctx, next)
		if err != nil {
			return soonf(ReasonNoWitness, "whether the provider knows the Node %s, which is Ready, has no answer: %v", next.Name, err)
		}
		b.mu.Lock()
		denied := j.answer(next, exists)
		b.mu.Unlock()
		if denied {
			b.contradict(ctx, next, ByWitness)
		}
	}
}

// answer notes one, and reports whether it was the last and there is no other
// than that a Node does not exist.
func (j *jury) answer(node *corev1.Node, exists bool) bool {
	if len(j.nodes) == 0 || j.nodes[0] != node { // another worker was told
		return false
	}
	j.nodes, j.asked, j.exists = j.nodes[1:], j.asked+1, j.exists || exists
	return len(j.nodes) == 0 && !j.exists
}

// jury returns that of the Node's zone.
func (b *Brake) jury(node *corev1.Node) *jury {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, zone := b.now(), node.Labels[corev1.LabelTopologyZone]
	j := b.juries[zone]
	if j != nil && now.Sub(j.at).Abs() < juryTime && (j.asked > 0 || len(j.nodes) > 0) {
		return j
	}
	if len(b.juries) >= maxJuries {
		clear(b.juries)
	}
	j = &jury{at: now, nodes: picked(zone, b.options.Cluster())}
	b.juries[zone] = j
	return j
}

// picked are Nodes that are Ready and that the provider has known, of the zone
// where it has any there. Where no Node has a ProviderID, it may be any.
func picked(zone string, cluster corelisters.NodeLister) []*corev1.Node {
	var near, far, others []*corev1.Node
	all, err := cluster.List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, node := range all {
		switch {
		case !ready(node) || node.DeletionTimestamp != nil || tainted(node, cloudproviderapi.TaintExternalCloudProvider):
		case !known(node):
			others = append(others, node)
		case node.Labels[corev1.LabelTopologyZone] == zone:
			near = append(near, node)
		default:
			far = append(far, node)
		}
	}
	for _, some := range [][]*corev1.Node{near, far, others} {
		if len(some) > 0 {
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			return some[:min(jurySize, len(some))]
		}
	}
	return nil
}
