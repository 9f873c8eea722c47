package brake

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// jury is a set of Ready Nodes of one zone. The provider is asked about them as if they were
// missing: a provider that knows none of them is not believed.
type jury struct {
	at     time.Time
	nodes  []*corev1.Node // to be asked about
	asked  int
	exists bool
	// mixed: other clouds have Ready Nodes, by the scheme of their ProviderIDs. Not to know
	// another cloud's Node is no lie.
	mixed bool
	// denied are the Nodes that do not exist by the provider's answers, answered the time of the
	// last answer, and lived the last renewal of one of their Leases after that.
	denied   []denial
	answered time.Time
	lived    time.Time
}

// denial is a Node that was Ready when the provider denied it.
type denial struct {
	node    *corev1.Node
	renewed time.Time
	based   bool // the Lease was read
}

const (
	// jurySize is the largest jury. One known Node is enough: others may have lost their
	// machines a moment ago.
	jurySize = 3
	// juryTime is how long an answer counts, and how long the brake waits for one.
	juryTime = 2 * time.Minute
	// maxJuries bounds the zones in memory.
	maxJuries = 64
)

// witnessed holds a Node while the provider knows no other existing Node.
func (b *Brake) witnessed(ctx context.Context, node *corev1.Node, c *candidate) *Hold {
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
			b.mu.Lock()
			c.counts = false // it is in nobody's way
			b.mu.Unlock()
			if hold := b.unmask(ctx, j); hold != nil {
				return hold
			}
			return holdf(ReasonNoWitness, "the provider says that %d Ready Nodes do not exist", verdict.asked)
		case next == nil:
			return holdf(ReasonNoWitness, "no Node that is Ready has been initialised by the provider, so none can be asked about")
		}
		exists, err := b.InstanceExistsFresh(ctx, next)
		if err != nil {
			return unanswered(ReasonNoWitness, "whether the provider knows the Node "+next.Name+", which is Ready,", err)
		}
		b.mu.Lock()
		j.answer(next, exists, b.now())
		b.mu.Unlock()
	}
}

// answer records an answer.
func (j *jury) answer(node *corev1.Node, exists bool, now time.Time) {
	if len(j.nodes) == 0 || j.nodes[0] != node { // another worker got an answer
		return
	}
	j.nodes, j.asked, j.exists, j.answered = j.nodes[1:], j.asked+1, j.exists || exists, now
	if !exists {
		j.denied = append(j.denied, denial{node: node})
	}
}

// unmask contradicts a provider that denies Nodes with a living kubelet, as in waited. Ready
// does not prove life: a Node stays Ready for most of a minute after its machine is gone,
// for example while a zone is emptied one machine after the other. Without a Lease there is
// no other evidence.
func (b *Brake) unmask(ctx context.Context, j *jury) *Hold {
	b.mu.Lock()
	denied, notBefore, now := slices.Clone(j.denied), j.answered, b.now()
	b.mu.Unlock()
	if recent := now.Add(-heartbeatsPause); recent.After(notBefore) {
		notBefore = recent
	}
	var alive *corev1.Node
	lie := false
	for i := range denied {
		d := &denied[i]
		beat, hold := b.lease(ctx, d.node.Name, notBefore)
		if hold != nil {
			return hold
		}
		switch {
		case !d.based && beat.IsZero():
			alive, lie = d.node, true
		case d.based && !beat.IsZero() && !beat.Equal(d.renewed):
			alive = d.node
		}
		d.renewed, d.based = beat, true
	}
	b.mu.Lock()
	j.denied = denied
	if alive != nil && !j.mixed {
		j.lived = now
	}
	if lie = !j.mixed && (lie || alive != nil && now.Sub(j.answered) >= lieAfter); lie {
		j.at, j.answered, j.lived = now, now, time.Time{} // once
	}
	b.mu.Unlock()
	if lie {
		b.contradict(ctx, alive, ByWitness)
	}
	return nil
}

// over reports whether the jury must be asked anew. While a denied Node lives, the lie is
// yet to be proven.
func (j *jury) over(now time.Time) bool {
	latest := j.at
	if j.lived.After(latest) {
		latest = j.lived
	}
	return now.Sub(latest).Abs() >= juryTime || j.asked == 0 && len(j.nodes) == 0
}

// jury returns the jury of the Node's cloud and zone.
func (b *Brake) jury(node *corev1.Node) *jury {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, key := b.now(), schemeOf(node)+" "+node.Labels[corev1.LabelTopologyZone]
	j := b.juries[key]
	if j != nil && !j.over(now) {
		return j
	}
	if len(b.juries) >= maxJuries {
		clear(b.juries)
	}
	j = &jury{at: now}
	j.nodes, j.mixed = picked(node, b.options.Cluster())
	b.juries[key] = j
	return j
}

// schemeOf returns the scheme of the ProviderID, which identifies the provider of the
// machine.
func schemeOf(node *corev1.Node) string {
	scheme, _, _ := strings.Cut(node.Spec.ProviderID, "://")
	return scheme
}

// picked returns Ready Nodes that the provider has known, of the same cloud if it has any,
// and of the same zone if it has any there. If no Node has a ProviderID, any Node will do.
// mixed reports whether there are other clouds.
func picked(about *corev1.Node, cluster corelisters.NodeLister) (some []*corev1.Node, mixed bool) {
	var near, far, abroad, others []*corev1.Node
	all, err := cluster.List(labels.Everything())
	if err != nil {
		return nil, false
	}
	zone := about.Labels[corev1.LabelTopologyZone]
	for _, node := range all {
		switch {
		case !ready(node) || node.DeletionTimestamp != nil || tainted(node, cloudproviderapi.TaintExternalCloudProvider):
		case !known(node):
			others = append(others, node)
		case known(about) && schemeOf(node) != schemeOf(about):
			abroad = append(abroad, node)
		case node.Labels[corev1.LabelTopologyZone] == zone:
			near = append(near, node)
		default:
			far = append(far, node)
		}
	}
	for _, some := range [][]*corev1.Node{near, far, abroad, others} {
		if len(some) > 0 {
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			return some[:min(jurySize, len(some))], len(abroad) > 0
		}
	}
	return nil, false
}
