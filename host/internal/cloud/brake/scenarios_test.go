package brake_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// scenario is a row of the table: a cluster of 100 Nodes, three of them of the
// control plane, where nothing else is said. play runs in the script's
// goroutine; the managers run beside it.
type scenario struct {
	name string
	lies bool
	play func(w *world)
	// life and overlap are those of the managers; zero: one lives all the time.
	life, overlap time.Duration
	// bounds after an hour and after a day: of Nodes that are left although
	// their machines are gone, and of Nodes deleted although theirs are not.
	stale, wrong [2]int
}

func scenarios() []scenario {
	return append(honestScenarios(), lyingScenarios()...)
}

func vanish(n int) func(*world) {
	return func(w *world) { w.cluster(97); w.until(time.Minute); w.remove(names("w", 0, n)...) }
}

func honestScenarios() []scenario {
	return []scenario{
		{name: "1 % at once", play: vanish(1)},
		{name: "15 % at once", play: vanish(15)},
		{name: "50 % at once", play: vanish(50), stale: [2]int{32, 0}},
		{name: "90 % at once", play: vanish(90), stale: [2]int{70, 0}},
		{name: "one a minute, up to 50", play: func(w *world) {
			w.cluster(97)
			for n, name := range names("w", 0, 50) {
				w.until(time.Duration(n+1) * time.Minute)
				w.remove(name)
			}
		}, stale: [2]int{32, 0}},
		{name: "a zone of spot machines reclaimed (33)", play: func(w *world) {
			w.cluster(97)
			w.until(time.Minute)
			w.remove(names("w", 65, 97)...)
		}, stale: [2]int{10, 0}},
		{name: "autoscaler: 60 in half an hour", play: func(w *world) {
			w.cluster(97)
			for n, name := range names("w", 0, 60) {
				w.until(time.Duration(n+1) * 30 * time.Second)
				w.taint(name, "ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)
				w.remove(name)
			}
		}},
		{name: "Cluster API: all workers replaced, one every 30 s", play: func(w *world) {
			w.cluster(97)
			for _, name := range names("w", 0, 97) {
				w.taint(name, "node.cluster.x-k8s.io/outdated-revision", corev1.TaintEffectPreferNoSchedule)
			}
			replace(w, 97, 1, 30*time.Second, func(name string) {
				w.change(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			})
		}},
		{name: "replaced without marks, 10 every 10 min", play: func(w *world) {
			w.cluster(97)
			replace(w, 97, 10, 10*time.Minute, func(string) {})
		}, stale: [2]int{32, 0}},
		{name: "3 Nodes, replaced one every 10 min", play: func(w *world) {
			w.cluster(0)
			for n, name := range names("cp", 0, 3) {
				w.until(time.Duration(n)*10*time.Minute + time.Minute)
				w.join(fmt.Sprint("new", n), "a", true, "node-role.kubernetes.io/control-plane")
				w.remove(name)
			}
		}},
		{name: "one joins before it is in the inventory", play: func(w *world) {
			w.cluster(96)
			w.join("early", "a", false)
		}},
	}
}

// replace joins new machines and removes old ones, some at a time.
func replace(w *world, all, step int, every time.Duration, mark func(name string)) {
	for from := 0; from < all; from += step {
		w.until(time.Duration(from/step)*every + time.Minute)
		some := names("w", from, min(from+step, all))
		for _, name := range some {
			mark(name)
			w.join("new-"+name, "a", true)
		}
		w.remove(some...)
	}
}

func lyingScenarios() []scenario {
	zone := names("w", 65, 97)
	most := names("w", 0, 96)
	outage := func(s says, silent ...string) func(*world) {
		return func(w *world) { w.cluster(97); w.until(time.Minute); w.silence(silent...); w.say(s) }
	}
	drip := func(w *world) {
		outage(func(w *world, m *machine, _ bool) (bool, error) {
			return m.silent.IsZero() || m.name >= fmt.Sprintf("w%03d", int(w.now()/(5*time.Minute))), nil
		}, most...)(w)
	}
	three := func(silent ...string) func(*world) {
		return func(w *world) { w.cluster(0); w.until(time.Minute); w.silence(silent...); w.say(exactly) }
	}
	return []scenario{
		{name: "empty list, 20 kubelets not ready, but alive", lies: true, play: func(w *world) {
			w.cluster(97)
			w.until(time.Minute)
			w.cripple(names("w", 0, 20)...)
			w.say(emptyList)
		}},
		{name: "empty list, a zone (32) off the network", lies: true, play: outage(emptyList, zone...)},
		{name: "a zone missing, 5 of its kubelets dead", lies: true, play: outage(withoutZone("c"), zone[:5]...)},
		{name: "exact: a zone (32) off the network", lies: true, play: outage(exactly, zone...), wrong: [2]int{30, 32}},
		{name: "exact: 96 off the network", lies: true, play: outage(exactly, most...), wrong: [2]int{30, 96}},
		{name: "exact: the same, a manager lives 2 min", lies: true, play: outage(exactly, most...), wrong: [2]int{30, 96}, life: 2 * time.Minute},
		{name: "exact: the same, two leaders at a time", lies: true, play: outage(exactly, most...), wrong: [2]int{30, 96}, life: 10 * time.Minute, overlap: 5 * time.Minute},
		{name: "exact: the same, one more every 5 min", lies: true, play: drip, wrong: [2]int{12, 96}},
		{name: "exact: 2 of 3 Nodes off the network", lies: true, play: three("cp000", "cp001")},
		{name: "exact: 3 of 3 Nodes off the network", lies: true, play: three("cp000", "cp001", "cp002")},
		{name: "one answer, and another of a fresh instance", lies: true, play: outage(forgetful, zone...)},
	}
}

// day runs a scenario for 24 hours and returns what is left over, and what was
// deleted, after one and all of them.
func (s *scenario) run(t *testing.T, d, period time.Duration) (stale, deleted, wrong [2]int, w *world) {
	w = simulate(t, period, func(w *world) {
		life := s.life
		if life == 0 {
			life = d
		}
		w.during(d, life, s.overlap, func() {
			go s.play(w)
			w.until(time.Hour)
			stale[0], _ = w.left()
			deleted[0], wrong[0] = w.deletedBy(time.Hour)
			w.until(d)
		})
		stale[1], _ = w.left()
		deleted[1], wrong[1] = w.deletedBy(d)
	})
	return stale, deleted, wrong, w
}

// TestScenarios plays those of people and of liars. With BRAKE_REPORT=1 each
// lasts a day, with upstream's period, and the table is printed.
func TestScenarios(t *testing.T) {
	report := os.Getenv("BRAKE_REPORT") != ""
	period := 2 * time.Minute
	if report {
		period = 5 * time.Second
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| | deleted, 1 h | 24 h | left over, 1 h | 24 h | log lines |\n|---|---|---|---|---|---|\n")
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			stale, deleted, wrong, w := s.run(t, 24*time.Hour, period)
			for i, when := range []string{"an hour", "a day"} {
				if stale[i] > s.stale[i] {
					t.Errorf("after %s %d Nodes of machines that are gone are left, want %d at most", when, stale[i], s.stale[i])
				}
				if wrong[i] > s.wrong[i] {
					t.Errorf("after %s %d Nodes were deleted whose machines are there, want %d at most", when, wrong[i], s.wrong[i])
				}
			}
			fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d |\n", s.name, deleted[0], deleted[1], stale[0], stale[1], w.lines)
		})
	}
	if report {
		fmt.Println(table.String())
	}
}
