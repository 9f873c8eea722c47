package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// The steps.

func (w *walk) offerKind(name, kind string) {
	s := w.subjects[name]
	s.offered = fmt.Sprintf("%s %s %d", name, kind, w.number())
	w.known[w.digest(name, s.offered)] = s.offered
	if kind == good || kind == slow {
		s.serves = ""
	}
	w.note("offer %s", s.offered)
	w.offer(name, s.source, s.offered)
}

func (w *walk) offerGood(name string)    { w.offerKind(name, good) }
func (w *walk) offerSlow(name string)    { w.offerKind(name, slow) }
func (w *walk) offerRefused(name string) { w.offerKind(name, refuses) }
func (w *walk) offerUnready(name string) { w.offerKind(name, unready) }

// offerTraps offers trapping modules until they are detected.
func (w *walk) offerTraps(name string) {
	w.quiet()
	w.offerKind(name, traps)
	w.pass(time.Minute)
}

func (w *walk) offerNothing(name string) {
	w.note("offer nothing of %s", name)
	w.subjects[name].offered = ""
	w.offer(name, w.subjects[name].source, "")
}

func (w *walk) rotateRight(name string) { w.rotate(name, true) }
func (w *walk) rotateWrong(name string) { w.rotate(name, false) }

func (w *walk) rotate(name string, right bool) {
	s := w.subjects[name]
	s.token, s.wrong = fmt.Sprintf("token-%s-%d-%d", name, w.seed, w.number()), !right
	w.note("secret of %s is %s, right: %v", name, s.token, right)
	s.doubtful = s.doubtful || s.wrong
	if right {
		w.cloud.accept(name, s.token)
	}
	w.secret(name, s.token)
}

// reload changes the file of all living managers. It comes into force if it is valid.
func (w *walk) reload(text string) {
	w.write(text)
	for _, one := range w.living {
		one.reload <- []byte(text)
		if one.accepted = text == w.text(); one.accepted {
			one.inForce = w.says()
		}
	}
}

func (w *walk) reloadValid(name string) {
	w.subjects[name].requests = 20 + w.random.IntN(50)
	w.note("file: %s has requests %d", name, w.subjects[name].requests)
	w.reload(w.text())
}

func (w *walk) reloadInvalid(name string) {
	w.note("file: not valid")
	w.reload(w.text() + "  limits: {memory: 12 apples}\n")
}

func (w *walk) reloadTimeout(name string) {
	w.subjects[name].timeout = 10 + w.random.IntN(20)
	w.note("file: %s has timeout %d", name, w.subjects[name].timeout)
	w.reload(w.text())
}

// restore gives a provider another store.
func (w *walk) restore(name string) {
	w.subjects[name].store = fmt.Sprintf("store-%d", w.number())
	w.note("file: %s has store %s", name, w.subjects[name].store)
	w.reload(w.text())
}

func (w *walk) reroute(name string) {
	w.subjects[name].scheme = fmt.Sprintf("scheme-%d", w.number())
	w.note("file: %s has scheme %s", name, w.subjects[name].scheme)
	w.reload(w.text())
}

// otherEngine moves a provider to the other engine: often during another of its
// changes, and occasionally together with an offer.
func (w *walk) otherEngine(name string) {
	s := w.subjects[name]
	s.engine = map[string]string{"wazero": "wasmtime", "wasmtime": "wazero"}[s.engine]
	w.note("file: %s has engine %s", name, s.engine)
	if w.random.IntN(3) == 0 {
		w.offerKind(name, []string{good, slow, unready}[w.random.IntN(3)])
	}
	w.reload(w.text())
}

// resource gives a provider another source, with a module of its own, or empty.
func (w *walk) resource(name string) {
	s := w.subjects[name]
	s.source = fmt.Sprintf("source-%s-%d", name, w.number())
	w.note("file: %s has source %s", name, s.source)
	if w.random.IntN(4) == 0 {
		w.offerNothing(name)
	} else {
		w.offerKind(name, []string{good, good, slow, unready}[w.random.IntN(4)])
	}
	w.reload(w.text())
}

// comeOrGo removes a provider from the file, or adds it again, while the managers run.
func (w *walk) comeOrGo(name string) {
	s := w.subjects[name]
	s.configured = !s.configured
	if len(w.says()) == 0 {
		s.configured = true
	}
	w.note("file: %s configured: %v", name, s.configured)
	w.changed(name)
}

// rename replaces one provider by another, usually with its store.
func (w *walk) rename(string) {
	var from, to string
	for _, name := range w.names() {
		if w.subjects[name].configured {
			from = name
		} else {
			to = name
		}
	}
	if from == "" || to == "" {
		return
	}
	w.subjects[from].configured, w.subjects[to].configured = false, true
	if w.random.IntN(4) > 0 {
		w.subjects[to].store, w.subjects[from].store = w.subjects[from].store, fmt.Sprintf("store-%d", w.number())
	}
	w.note("file: %s is renamed to %s, with store %s", from, to, w.subjects[to].store)
	w.changed(from, to)
}

// changed reloads a file with another set of providers. The serving modules of
// added ones are unknown, since they were away.
func (w *walk) changed(names ...string) {
	for _, name := range names {
		w.subjects[name].serves = ""
	}
	w.reload(w.text())
}

// valid writes a file with which a manager can start.
func (w *walk) valid() { w.reload(w.text()) }

// beginInvalid starts a manager that cannot start.
func (w *walk) beginInvalid(string) {
	w.note("a manager with a file that is not valid")
	w.reload(w.text() + "  limits: {memory: 12 apples}\n")
	if _, err := w.begin("invalid"); err == nil {
		w.t.Error("a manager starts with a file that is not valid")
	}
}

// late delays some answers of the API server beyond the client's patience.
func (w *walk) late(string) {
	one := w.living[w.random.IntN(len(w.living))]
	w.note("%s hears nothing of some writes", one.name)
	one.line.late.Store(5)
	w.pass(20 * time.Second)
	one.line.late.Store(0)
}

func (w *walk) handOver(string) {
	w.note("the leader ends")
	w.valid()
	old := w.leader
	old.end()
	if old.writesLeases() {
		w.t.Error("the lease is not given back")
	}
	w.next()
}

func (w *walk) crash(string) {
	w.note("the leader is killed")
	w.valid()
	w.leader.kill()
	w.killed = true
	w.next()
}

func (w *walk) loseLease(string) {
	w.note("the leader loses its lease")
	w.valid()
	w.leader.controllerManager.end(context.Background())
	w.leader.kill()
	w.next()
}

// next makes the standby lead, with a new standby.
func (w *walk) next() {
	w.leader = w.standby
	w.leads()
	w.standby = w.mustBegin()
}

func (w *walk) away(string) {
	one := w.living[w.random.IntN(len(w.living))]
	w.note("the API server is away from %s", one.name)
	one.line.set(true)
	w.pass(time.Duration(w.random.IntN(60)) * time.Second)
	one.line.set(false)
	w.note("the API server is back for %s", one.name)
}

func (w *walk) pause(name string) {
	s := w.subjects[name]
	if !s.configured {
		return
	}
	w.quiet()
	s.paused = !s.paused
	w.note("%s paused: %v", name, s.paused)
	if s.paused {
		w.annotate(name, status.AnnotationPause, "yes")
	} else {
		w.annotate(name, status.AnnotationPause, "")
	}
	time.Sleep(time.Second)
}

func (w *walk) annotate(name, key, value string) {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)
	}
	_, err := w.admin().CoreV1().ConfigMaps(namespace).Patch(w.t.Context(), status.Name(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && w.subjects[name].told {
		w.t.Errorf("annotate %s: %v", name, err)
	}
}

// removeOrReturn removes a provider from the file, or adds it again, and restarts the managers.
func (w *walk) removeOrReturn(name string) {
	s := w.subjects[name]
	s.configured = !s.configured
	if len(w.says()) == 0 {
		s.configured = true
	}
	w.note("%s configured: %v, all anew", name, s.configured)
	w.write(w.text())
	for _, one := range slices.Clone(w.living) {
		one.end()
	}
	w.start()
}

func (w *walk) rest(string) { w.pass(time.Minute) }

// ask lets the loops call the leader's providers about a Node.
func (w *walk) ask(times int) {
	for i := range times {
		for _, one := range w.leader.all() {
			if instances, ok := one.provider.InstancesV2(); ok {
				_, _ = instances.InstanceExists(w.t.Context(), node(fmt.Sprint("node-", i)))
			}
		}
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}
