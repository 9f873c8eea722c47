package brake_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

// history is some hours of a random cluster, its people, autoscalers, outages,
// managers and providers.
type history struct {
	*world
	random *rand.Rand
	honest bool // the provider is
	sound  bool // the API server never fails
	joined int
}

// historyTime is how long things happen; then all is mended but what is gone.
const historyTime = 3 * time.Hour

func (h *history) of(n int) int                { return h.random.IntN(n) }
func (h *history) minutes(n int) time.Duration { return time.Duration(h.of(n*60)+1) * time.Second }

// some are up to most of the machines that exist.
func (h *history) some(most int) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, m := range h.machines {
		if m.exists && len(all) < most {
			all = append(all, name)
		}
	}
	return all
}

// few is mostly a small number, and now and then all.
func (h *history) few() int {
	switch h.of(6) {
	case 0:
		return 1 + h.of(100)
	case 1:
		return 1 + h.of(10)
	}
	return 1 + h.of(2)
}

func (h *history) zone() string { return string(rune('a' + h.of(3))) }

func (h *history) inZone(zone string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, m := range h.machines {
		if m.exists && m.zone == zone {
			all = append(all, name)
		}
	}
	return all
}

// event is one thing that happens.
func (h *history) event() {
	switch h.of(14) {
	case 0, 1: // kubelets crash, and come back
		some := h.some(h.few())
		h.silence(some...)
		time.AfterFunc(h.minutes(60), func() { h.revive(some...) })
	case 2: // a zone is off the network
		some := h.inZone(h.zone())
		h.silence(some...)
		time.AfterFunc(h.minutes(60), func() { h.revive(some...) })
	case 3, 4: // machines are deleted; kubelets may be down long before
		some := h.some(h.few())
		h.silence(some...)
		time.AfterFunc(h.minutes(5), func() { h.remove(some...) })
	case 5: // by an autoscaler
		some := h.some(h.few())
		for _, name := range some {
			h.taint(name, "ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)
		}
		h.remove(some...)
	case 6: // a network plugin is broken
		some := h.some(h.few())
		h.cripple(some...)
		time.AfterFunc(h.minutes(60), func() { h.mend(some...) })
	case 7, 8:
		h.grow(h.few() % 12)
	case 9: // joined before the cloud knows it
		h.joined++
		name := fmt.Sprintf("early%03d", h.joined)
		h.join(name, h.zone(), false)
		time.AfterFunc(h.minutes(40), func() { h.list(name) })
	case 10:
		for _, name := range h.some(1) {
			h.annotate(name, brake.NodeDeletionAnnotation, []string{brake.Never, brake.Unbraked, "sometimes"}[h.of(3)])
		}
	case 11:
		h.trouble()
	case 12: // machines are made anew under the names of those that are gone
		for _, name := range h.gone(h.few()) {
			h.again(name)
		}
	case 13: // the provider hangs, or traps, where it is asked afresh
		before := honest
		if !h.honest {
			before = h.saying()
		}
		h.say(func(w *world, m *machine, fresh bool) (bool, error) {
			if fresh && w.now()/time.Minute%3 == 0 {
				return false, errors.New("unreachable")
			}
			return before(w, m, fresh)
		})
		time.AfterFunc(h.minutes(30), func() { h.say(before) })
	}
}

func (h *history) saying() says {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.says
}

// gone are up to most of the machines that are deleted.
func (h *history) gone(most int) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, m := range h.machines {
		if !m.exists && len(all) < most {
			all = append(all, name)
		}
	}
	return all
}

// again makes a machine of an old name. Its kubelet takes over the Node, where
// that is still there.
func (h *history) again(name string) {
	h.mu.Lock()
	m := h.machines[name]
	m.exists = true
	_, there, _ := h.nodes.GetByKey(name)
	h.mu.Unlock()
	if there {
		h.revive(name)
		return
	}
	h.join(name, m.zone, true)
}

// trouble is the API server's, and what a liar says next.
func (h *history) trouble() {
	if !h.sound {
		h.ledger.fail(errors.New("etcdserver: request timed out"))
		time.AfterFunc(h.minutes(10), func() { h.ledger.fail(nil) })
		h.mu.Lock()
		h.leases = errors.New("etcdserver: request timed out")
		h.mu.Unlock()
		time.AfterFunc(h.minutes(10), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.leases = nil
		})
	}
	if h.honest {
		h.say(unreachable)
		time.AfterFunc(h.minutes(10), func() { h.say(honest) })
		return
	}
	h.say([]says{honest, emptyList, exactly, exactly, withoutZone(h.zone()), forgetful, unreachable}[h.of(7)])
}

func (h *history) grow(n int) {
	for range n {
		h.joined++
		h.join(fmt.Sprintf("more%03d", h.joined), h.zone(), true)
	}
}

// list has the cloud know a machine.
func (h *history) list(name string) {
	h.mu.Lock()
	m := h.machines[name]
	m.listed, m.broken = true, false
	alive := m.exists && m.silent.IsZero()
	h.mu.Unlock()
	if alive {
		h.change(name, func(n *corev1.Node) { initialise(n, m.zone) })
		h.ready(name, corev1.ConditionTrue)
	}
}

// mend mends kubelets that live.
func (h *history) mend(names ...string) {
	for _, name := range names {
		h.mu.Lock()
		m := h.machines[name]
		well := m.exists && m.silent.IsZero() && !m.broken
		h.mu.Unlock()
		if well {
			h.ready(name, corev1.ConditionTrue)
		}
	}
}

// live is the whole history: things happen, then all is mended but what is
// gone, and then there is time to go for as many as are stale.
func (h *history) live() {
	if h.of(8) == 0 {
		h.cluster(h.of(60))
	} else {
		h.cluster(h.of(16))
	}
	lives := []time.Duration{24 * time.Hour, 37 * time.Minute, 7 * time.Minute, 2 * time.Minute}
	life := lives[h.of(len(lives))]
	overlap := time.Duration(h.of(2)) * 3 * time.Minute
	h.during(historyTime+2*time.Hour, life, overlap, func() {
		if !h.honest {
			h.trouble()
		}
		for h.now() < historyTime {
			time.Sleep(h.minutes(15))
			h.event()
		}
		time.Sleep(time.Hour) // what began ends
		h.grow(3)
		h.join("cp-new", "a", true, labelControlPlane)
	})
	stale, _ := h.left()
	limits := shipped()
	// Managers that live shortly begin each grace period anew.
	h.during(limits.Period*time.Duration(stale+limits.Nodes)/time.Duration(limits.Nodes)+20*time.Minute, 24*time.Hour, 0, func() {})
}

const labelControlPlane = "node-role.kubernetes.io/control-plane"

// counts reports whether a deletion needs a permit.
func (d *deletion) counts() bool {
	for _, taint := range d.node.Spec.Taints {
		if taint.Key == "ToBeDeletedByClusterAutoscaler" {
			return false
		}
	}
	return d.node.Annotations[brake.NodeDeletionAnnotation] != brake.Unbraked
}

// judge holds a history to what SECURITY.md promises.
func (h *history) judge(t *testing.T) {
	limits := shipped()
	var counted []deletion
	for _, d := range h.deletions() {
		if silent := h.start.Add(d.after).Sub(d.beat); silent < limits.Settle {
			t.Errorf("%s went %v after a heartbeat", d.node.Name, silent)
		}
		if mark := d.node.Annotations[brake.NodeDeletionAnnotation]; mark != "" && mark != brake.Unbraked {
			t.Errorf("%s went, whose annotation says %q", d.node.Name, mark)
		}
		if d.node.Spec.ProviderID == "" && h.start.Add(d.after).Sub(d.node.CreationTimestamp.Time) < 15*time.Minute {
			t.Errorf("%s went %v after it joined, before the provider had known it", d.node.Name, h.start.Add(d.after).Sub(d.node.CreationTimestamp.Time))
		}
		if !d.counts() {
			continue
		}
		counted = append(counted, d)
		if d.ready == 0 {
			t.Errorf("%s went when no Node was Ready", d.node.Name)
		}
		if _, control := d.node.Labels[labelControlPlane]; control && d.control[0] < d.control[1] {
			t.Errorf("%s of the control plane went when %d were Ready and %d not", d.node.Name, d.control[0], d.control[1])
		}
	}
	h.judgeRate(t, counted)
	h.judgeLeft(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := h.events["let go"] + len(h.denied); h.ledger.writes > most {
		t.Errorf("%d writes of the record, for %d Nodes and contradictions", h.ledger.writes, most)
	}
}

// judgeRate looks at every stretch of time between two deletions.
func (h *history) judgeRate(t *testing.T, counted []deletion) {
	limits := shipped()
	share := h.size * limits.Percent / 100
	most, refill := max(1, share, min(limits.Nodes, h.size/3)), max(1, share, limits.Nodes)
	for i := range counted {
		for j := i; j < len(counted); j++ {
			took := counted[j].after - counted[i].after
			if allowed := float64(most) + float64(refill)*float64(took)/float64(limits.Period); float64(j-i+1) > allowed+1e-3 {
				t.Errorf("%d of %d Nodes went in %v, %.1f are allowed", j-i+1, h.size, took, allowed)
				return
			}
		}
		for _, at := range h.denied {
			if after := h.start.Add(counted[i].after).Sub(at); h.sound && after > 0 && after < limits.Period {
				t.Errorf("%s went %v after the provider was contradicted", counted[i].node.Name, after)
				return
			}
		}
	}
}

// judgeLeft looks for Nodes that an honest provider could not get rid of.
func (h *history) judgeLeft(t *testing.T) {
	if !h.honest {
		return
	}
	here, away := 0, 0
	var stale, controls []string
	for _, item := range h.nodes.List() {
		node := item.(*corev1.Node)
		mark := node.Annotations[brake.NodeDeletionAnnotation]
		stays := h.machines[node.Name].exists || mark != "" && mark != brake.Unbraked
		_, control := node.Labels[labelControlPlane]
		ready := node.Status.Conditions[3].Status == corev1.ConditionTrue
		switch {
		case control && ready:
			here++
		case control:
			away++
		}
		switch {
		case control && !stays:
			controls = append(controls, node.Name)
		case !stays:
			stale = append(stale, node.Name)
		}
	}
	if here >= away {
		stale = append(stale, controls...)
	}
	if len(stale) > 0 {
		t.Errorf("%d Nodes of machines that are gone are left: %v; log %v", len(stale), stale, h.events)
	}
}

// TestHistories holds random histories to the guarantees; with BRAKE_REPORT=1
// 10,000 of them.
func TestHistories(t *testing.T) {
	n, period := 60, time.Minute
	if text := os.Getenv("BRAKE_HISTORIES"); text != "" {
		n, _ = strconv.Atoi(text)
	} else if os.Getenv("BRAKE_REPORT") != "" {
		n = 10_000
	} else if testing.Short() {
		n = 10
	}
	var deleted, wrong, honest, failed int
	from, _ := strconv.Atoi(os.Getenv("BRAKE_FROM"))
	for seed := from; seed < from+n; seed++ {
		h := &history{random: rand.New(rand.NewPCG(uint64(seed), 12)), honest: seed%2 == 0, sound: seed%3 != 0}
		simulate(t, period, func(w *world) { h.world = w; h.live() })
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h.judge(t)
			if t.Failed() {
				failed++
			}
		})
		all, bad := h.deletedBy(100 * time.Hour)
		deleted, wrong = deleted+all, wrong+bad
		if h.honest {
			honest++
		}
	}
	fmt.Printf("%d histories, %d of an honest provider: %d Nodes deleted, %d of them of machines that were there; %d histories failed\n", n, honest, deleted, wrong, failed)
}
