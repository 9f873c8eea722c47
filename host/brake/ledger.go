package brake

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// nodeKey tells a Node from a later one of the same name.
type nodeKey struct{ name, uid string }

func keyOf(node *corev1.Node) nodeKey { return nodeKey{node.Name, string(node.UID)} }

// ledger is the nodes that are gone. A node is in one of both at most.
type ledger struct {
	// held are the nodes that the provider says are gone and that are still in
	// the cluster, because they were not let go.
	held map[nodeKey]struct{}
	// let are the nodes that were let go, with when.
	let map[nodeKey]time.Time
	// pruned is when prune last looked at every node.
	pruned time.Time
}

func newLedger() ledger {
	return ledger{held: map[nodeKey]struct{}{}, let: map[nodeKey]time.Time{}}
}

func (l *ledger) remove(key nodeKey) {
	delete(l.held, key)
	delete(l.let, key)
}

// hold notes a node that is gone. One that was let go stays so: that it is
// asked about again means that its deletion has failed or is not seen yet.
func (l *ledger) hold(key nodeKey) {
	if _, ok := l.let[key]; !ok {
		l.held[key] = struct{}{}
	}
}

func (l *ledger) letGo(key nodeKey, now time.Time) {
	delete(l.held, key)
	l.let[key] = now
}

func (l *ledger) len() int { return len(l.held) + len(l.let) }

// prunePeriod bounds the work: it looks up every node that is held.
const prunePeriod = time.Second

// prune forgets what does not count any more: nodes let go longer ago than the
// period, and held ones that left the cluster by another way or are Ready
// again, of which nobody asks any more.
func (l *ledger) prune(now time.Time, period time.Duration, cluster corelisters.NodeLister) {
	if now.Sub(l.pruned) < prunePeriod {
		return
	}
	l.pruned = now
	for key, at := range l.let {
		if now.Sub(at) >= period {
			delete(l.let, key)
			if waiting(key, cluster) { // its deletion failed
				l.held[key] = struct{}{}
			}
		}
	}
	for key := range l.held {
		if !waiting(key, cluster) {
			delete(l.held, key)
		}
	}
}

// member reports whether the node is in the cluster.
func member(key nodeKey, cluster corelisters.NodeLister) bool {
	node, err := cluster.Get(key.name)
	return err == nil && keyOf(node) == key
}

// waiting reports whether the lifecycle controller asks about the node: it is
// in the cluster and not Ready.
func waiting(key nodeKey, cluster corelisters.NodeLister) bool {
	node, err := cluster.Get(key.name)
	if err != nil || keyOf(node) != key {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return true
}

// status counts. The size of the cluster is that before the nodes were let go.
func (b *Brake) status(now time.Time) Status {
	cluster := b.options.Cluster()
	b.gone.prune(now, b.options.Period, cluster)
	nodes, err := cluster.List(labels.Everything())
	size := len(nodes)
	if err != nil {
		size = 0
	}
	for key := range b.gone.let {
		if !member(key, cluster) {
			size++
		}
	}
	return Status{
		Engaged: b.engaged, Gone: b.gone.len(), Size: size,
		Allowed: max(size*b.options.Percent/100, b.options.Nodes),
	}
}
