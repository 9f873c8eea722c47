package manager

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

func (w *walk) statusOf(name string) (s status.Status) {
	w.t.Helper()
	if !w.subjects[name].told && !w.subjects[name].configured {
		return s
	}
	cm, err := w.admin().CoreV1().ConfigMaps(namespace).Get(w.t.Context(), status.Name(name), metav1.GetOptions{})
	if err == nil {
		err = yaml.Unmarshal([]byte(cm.Data["status"]), &s)
	}
	if err != nil {
		w.t.Errorf("status of %s: %v", name, err)
	}
	return s
}

// quiet waits until there are no more changes, and checks everything.
func (w *walk) quiet() {
	w.t.Helper()
	w.note("quiet")
	w.pass(4 * time.Minute)
	for _, one := range w.leader.all() {
		// For a module on trial when a manager was killed, a person confirms
		// that it was not at fault; and that a slow one is meant.
		s, reason := w.subjects[one.name], w.statusOf(one.name).Reason
		if s.able() && (w.killed && reason == "ModuleSuspected" || strings.Contains(s.offered, slow) && reason == "ShadowDiffers") {
			w.annotate(one.name, status.AnnotationPromote, "true")
			w.pass(time.Minute)
		}
	}
	for _, one := range w.leader.all() {
		w.check(one, w.subjects[one.name])
	}
	w.checkRemoved()
	time.Sleep(5 * time.Second) // for pending work
	synctest.Wait()
	for _, process := range w.living {
		for _, one := range process.all() {
			w.checkNetworks(process, one)
		}
	}
}

// checkRemoved checks removed providers: only a status that says so remains.
func (w *walk) checkRemoved() {
	w.t.Helper()
	for name, s := range w.subjects {
		if s.configured {
			s.told = true
			continue
		}
		if phase := w.statusOf(name).Phase; s.told && phase != status.PhaseRemoved {
			w.t.Errorf("%s is not configured, and its status says %s", name, phase)
		}
	}
	for _, process := range w.living {
		if ending := process.withEnding()[len(process.all()):]; len(ending) > 0 {
			w.t.Errorf("manager %s: %s has not ended: %v, %v", process.name, ending[0].name, ending[0].working.Running(), ending[0].living.Running())
		}
	}
}

// pass lets the loops call the providers for a time. Problems only show in calls.
func (w *walk) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.ask(3)
		time.Sleep(2 * time.Second)
	}
	time.Sleep(time.Duration(w.random.IntN(1000)) * time.Millisecond)
}

// check compares a provider of the leader with its expected state.
func (w *walk) check(one *managed, s *side) {
	w.t.Helper()
	now := one.slot.Serving()
	if now == nil && !s.served && !s.able() {
		return // no module ever could
	}
	if now == nil {
		w.t.Errorf("%s: nothing serves; the source has %q; %+v", one.name, s.offered, w.statusOf(one.name))
		return
	}
	serves := now.Digests().Config
	if !s.served && strings.Contains(w.known[serves], traps) {
		return // there is no earlier module for a rollback
	}
	s.served = true
	if s.able() {
		s.serves, s.doubtful = w.digest(one.name, s.offered), false
	}
	if s.serves == "" {
		s.serves = serves
	}
	if serves != s.serves {
		w.t.Errorf("%s: %q serves, want %q; %q is offered; the status is %+v", one.name, w.known[serves], w.known[s.serves], s.offered, w.statusOf(one.name))
	}
	published := w.statusOf(one.name)
	if published.Serving == nil || published.Serving.ConfigDigest != serves {
		w.t.Errorf("%s: %s serves, and the status says %+v", one.name, serves, published)
	}
	if offered := published.Offered; published.Phase == v1alpha1.PhaseKept && offered != nil && offered.Digest+offered.ConfigDigest != published.Serving.Digest+published.Serving.ConfigDigest {
		w.t.Errorf("%s: the status says of an offer that does not serve: %+v", one.name, published)
	}
	w.checkConfiguration(one, s, published)
	if s.doubtful {
		return
	}
	instances, _ := one.provider.InstancesV2()
	for range 3 { // the first answer may come later
		exists, err := instances.InstanceExists(w.t.Context(), node("checked"))
		if err == nil && exists {
			return
		}
		time.Sleep(10 * time.Second)
		if err != nil {
			w.note("%s: %v", one.name, err)
		}
	}
	w.t.Errorf("%s: it does not answer; it should serve %q", one.name, s.offered)
}

func (w *walk) digest(name, offered string) string {
	text := fmt.Sprintf("%s http://127.0.0.1:%s/%s/", offered, w.cloud.port, name)
	return plugin.Bundle{Config: []byte(text)}.Digests().Config
}

// checkConfiguration compares with the newest applicable file.
func (w *walk) checkConfiguration(one *managed, s *side, published status.Status) {
	w.t.Helper()
	c, want := one.loader.config(), w.leader.inForce
	got := says{int(c.Requests.PerSecond), int(c.Ops.Timeout.Seconds()), c.Source.ConfigMap.Name, c.Store, c.Routing.Nodes.Schemes[0], c.Engine}
	if got != want[one.name] {
		w.t.Errorf("%s: %+v is in force, want %+v", one.name, got, want[one.name])
	}
	if accepted := !meta.IsStatusConditionFalse(published.Conditions, v1alpha1.ConditionConfigured); accepted != w.leader.accepted {
		w.t.Errorf("%s: the status says that the file is accepted: %v, want %v", one.name, accepted, w.leader.accepted)
	}
	if s.able() && published.Serving.Engine != s.engine {
		w.t.Errorf("%s: engine %s serves, want %s", one.name, published.Serving.Engine, s.engine)
	}
	if version := one.loader.Revision(); s.able() && !strings.Contains(published.Serving.Revision, version) {
		w.t.Errorf("%s: the terms are %s, and %s serves", one.name, version, published.Serving.Revision)
	}
}

// checkNetworks counts: each open network belongs to the configuration, or to a
// loaded generation.
func (w *walk) checkNetworks(process *whole, one *managed) {
	w.t.Helper()
	one.loader.mu.Lock()
	defer one.loader.mu.Unlock()
	users := map[*network]int32{one.loader.current.network: 1}
	for _, b := range one.loader.loaded {
		users[b.network]++
	}
	for n, want := range users {
		if got := n.users.Load(); got != want {
			w.t.Errorf("manager %s, %s: network %d has %d users, want %d", process.name, one.name, n.number, got, want)
		}
	}
	open := 0
	names := one.living.Running()
	for _, name := range names {
		if strings.HasPrefix(name, "the Secrets of network") {
			open++
		}
	}
	if open != len(users) {
		w.t.Errorf("manager %s, %s: %d networks are open, %d are used: %v", process.name, one.name, open, len(users), names)
	}
	if len(one.loader.loaded) > 4 {
		w.t.Errorf("manager %s, %s: %d generations are loaded", process.name, one.name, len(one.loader.loaded))
	}
}
