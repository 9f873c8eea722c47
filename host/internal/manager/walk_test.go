package manager

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

const walkSteps = 25

// Managers with all that happens to them: offers good and bad, reloads,
// Secrets, failover, an API server that is away, providers that go and come
// back. Whatever the order, what should serve serves.
//
// WALK_SEED is the one seed, or the first of those for WALK_FOR, as 5m.
func TestRandomWalksOfManagers(t *testing.T) {
	c, module := newCloud(t), guest(t, `["instance_exists","instance_shutdown","instance_metadata"]`)
	// Of which one, with the time of no bubble, has everybody wait after an error.
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = nil
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("WALK_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	period, err := time.ParseDuration(cmp.Or(os.Getenv("WALK_FOR"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("WALK_SEED") == "" {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
		t.Cleanup(func() { klog.LogToStderr(true) })
	}
	least := uint64(2)
	if os.Getenv("WALK_SEED") != "" {
		least = 1
	}
	steps, begun, first := 0, time.Now(), seed
	for ; seed < first+least || time.Since(begun) < period; seed++ {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { steps += newWalk(t, seed, newWorld(t, c, module)).run() })
		})
		if !ok {
			t.Fatalf("again: WALK_SEED=%d go test -run %s", seed, t.Name())
		}
	}
	t.Logf("%d steps of %d walks in %v, from seed %d", steps, seed-first, time.Since(begun).Round(time.Millisecond), first)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		t.Errorf("a provider sent what is another's: %v", c.wrong)
	}
}

// says is a provider's part of the file; a changed timeout needs a restart.
type says struct{ requests, timeout int }

// side is what the walk knows of one provider.
type side struct {
	configured bool
	says
	offered  string // "PROVIDER KIND NUMBER", "" for none
	serves   string // the digest of what is expected to serve, "" when it is not known
	token    string // that the Secret has
	wrong    bool   // the cloud does not know it
	doubtful bool   // what serves may have a wrong one: a right one comes with what is offered
	paused   bool
	told     bool // there is a status that it was configured
}

// able: what is offered should serve.
func (s *side) able() bool {
	return (strings.Contains(s.offered, good) || strings.Contains(s.offered, slow)) && !s.wrong && !s.paused
}

// walk is one random life of some managers.
type walk struct {
	*world
	seed     uint64
	random   *rand.Rand
	subjects map[string]*side
	leader   *whole
	standby  *whole
	killed   bool // a manager was, at least once
	numbers  int
	known    map[string]string // what was offered, by its digest
	log      []string
}

func newWalk(t *testing.T, seed uint64, w *world) *walk {
	return &walk{world: w, seed: seed, known: map[string]string{}, random: rand.New(rand.NewPCG(seed, 3)), subjects: map[string]*side{
		"one": {configured: true, says: says{50, 20}}, "two": {configured: true, says: says{50, 20}},
	}}
}

func (w *walk) number() int { w.numbers++; return w.numbers }

func (w *walk) names() []string { return slices.Sorted(maps.Keys(w.subjects)) }

// text is the file of --config.
func (w *walk) text() string {
	text := fileHead
	for _, name := range w.names() {
		if s := w.subjects[name]; s.configured {
			text += w.provider(name, s.requests, s.timeout)
		}
	}
	return text
}

func (w *walk) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// run returns how many steps there were.
func (w *walk) run() int {
	defer func() {
		if w.t.Failed() {
			w.t.Logf("seed %d:\n%s", w.seed, strings.Join(w.log, "\n"))
		}
	}()
	for _, name := range w.names() {
		w.rotate(name, true)
		w.offerKind(name, good)
	}
	w.write(w.text())
	w.start()
	w.quiet()
	steps := []func(string){
		w.offerGood, w.offerGood, w.offerSlow, w.offerTraps, w.offerRefused, w.offerUnready, w.offerNothing,
		w.rotateRight, w.rotateRight, w.rotateWrong, w.reloadValid, w.reloadValid, w.reloadInvalid, w.reloadFixed,
		w.beginInvalid, w.late, w.handOver, w.crash, w.loseLease, w.away, w.pause, w.removeOrReturn, w.rest, w.rest,
	}
	n := 0
	for ; n < walkSteps && !w.t.Failed(); n++ {
		name := w.names()[w.random.IntN(2)]
		steps[w.random.IntN(len(steps))](name)
		if w.random.IntN(3) == 0 {
			w.quiet()
		} else {
			w.pass(time.Duration(w.random.IntN(15_000)) * time.Millisecond)
		}
	}
	w.quiet()
	for _, one := range slices.Clone(w.living) {
		one.end()
	}
	return n
}

// start begins a leader and a standby.
func (w *walk) start() {
	w.leader = w.mustBegin()
	w.leads()
	w.standby = w.mustBegin()
}

func (w *walk) mustBegin() *whole {
	w.t.Helper()
	w.begun++
	one, err := w.begin(fmt.Sprint(w.begun))
	if err != nil {
		w.t.Fatal(err)
	}
	one.inForce, one.accepted = w.says(), true
	return one
}

// says is what the file does, where it is valid.
func (w *walk) says() map[string]says {
	all := map[string]says{}
	for name, s := range w.subjects {
		if s.configured {
			all[name] = s.says
		}
	}
	return all
}

func (w *walk) leads() {
	w.leader.cloud().Initialize(nil, nil)
	for _, name := range w.names() {
		if s := w.subjects[name]; s.configured {
			s.told = true
		}
	}
}

// The steps.

func (w *walk) offerKind(name, kind string) {
	s := w.subjects[name]
	s.offered = fmt.Sprintf("%s %s %d", name, kind, w.number())
	w.known[w.digest(name, s.offered)] = s.offered
	if kind == good || kind == slow {
		s.serves = ""
	}
	w.note("offer %s", s.offered)
	w.offer(name, s.offered)
}

func (w *walk) offerGood(name string)    { w.offerKind(name, good) }
func (w *walk) offerSlow(name string)    { w.offerKind(name, slow) }
func (w *walk) offerRefused(name string) { w.offerKind(name, refuses) }
func (w *walk) offerUnready(name string) { w.offerKind(name, unready) }

// offerTraps has them found out.
func (w *walk) offerTraps(name string) {
	w.quiet()
	w.offerKind(name, traps)
	w.pass(time.Minute)
}

func (w *walk) offerNothing(name string) {
	w.note("offer nothing of %s", name)
	w.subjects[name].offered = ""
	w.offer(name, "")
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

// reload changes the file under all that live. It is in force where it is valid
// and needs no restart.
func (w *walk) reload(text string) {
	w.write(text)
	for _, one := range w.living {
		one.reload <- []byte(text)
		one.accepted = text == w.text()
		for name, now := range w.says() {
			one.accepted = one.accepted && now.timeout == one.inForce[name].timeout
		}
		if one.accepted {
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

// reloadFixed changes what cannot be changed without a restart.
func (w *walk) reloadFixed(name string) {
	w.subjects[name].timeout = 10 + w.random.IntN(20)
	w.note("file: %s has timeout %d", name, w.subjects[name].timeout)
	w.reload(w.text())
}

// valid has a file with which a manager may start.
func (w *walk) valid() { w.reload(w.text()) }

// beginInvalid has a manager that cannot start.
func (w *walk) beginInvalid(string) {
	w.note("a manager with a file that is not valid")
	w.reload(w.text() + "  limits: {memory: 12 apples}\n")
	if _, err := w.begin("invalid"); err == nil {
		w.t.Error("a manager starts with a file that is not valid")
	}
}

// late has some answers of the API server come too late.
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
	if !old.leases.closed {
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
	w.leader.manager.end(context.Background())
	w.leader.kill()
	w.next()
}

// next has the standby lead, and another one stand by.
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

// removeOrReturn takes a provider out of the file, or back, and starts anew.
func (w *walk) removeOrReturn(string) {
	s := w.subjects["two"]
	s.configured = !s.configured
	w.note("two configured: %v", s.configured)
	w.write(w.text())
	for _, one := range slices.Clone(w.living) {
		one.end()
	}
	w.start()
	if s.configured {
		return
	}
	w.quiet()
	if phase := w.statusOf("two").Phase; phase != status.PhaseRemoved {
		w.t.Errorf("two is not configured, and its status says %s", phase)
	}
}

func (w *walk) rest(string) { w.pass(time.Minute) }

// ask has the loops ask the leader's providers about a Node.
func (w *walk) ask(times int) {
	for i := range times {
		for _, one := range w.leader.providers {
			if instances, ok := one.provider.InstancesV2(); ok {
				_, _ = instances.InstanceExists(w.t.Context(), node(fmt.Sprint("node-", i)))
			}
		}
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

func (w *walk) statusOf(name string) (s status.Status) {
	w.t.Helper()
	cm, err := w.admin().CoreV1().ConfigMaps(namespace).Get(w.t.Context(), status.Name(name), metav1.GetOptions{})
	if err == nil {
		err = yaml.Unmarshal([]byte(cm.Data["status"]), &s)
	}
	if err != nil {
		w.t.Errorf("status of %s: %v", name, err)
	}
	return s
}

// quiet waits until nothing happens any more and looks at everything.
func (w *walk) quiet() {
	w.t.Helper()
	w.note("quiet")
	w.pass(4 * time.Minute)
	for _, one := range w.leader.providers {
		// Of what was on its way when a manager was killed a person says that it
		// was not at fault.
		if s := w.subjects[one.name]; s.able() && w.killed && w.statusOf(one.name).Reason == "ModuleSuspected" {
			w.annotate(one.name, status.AnnotationPromote, "true")
			w.pass(time.Minute)
		}
	}
	for _, one := range w.leader.providers {
		w.check(one, w.subjects[one.name])
	}
	time.Sleep(5 * time.Second) // for what is on its way
	synctest.Wait()
	for _, process := range w.living {
		for _, one := range process.providers {
			w.checkNetworks(process, one)
		}
	}
}

// pass has the loops ask for a time. Who is not asked is not found out.
func (w *walk) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.ask(3)
		time.Sleep(2 * time.Second)
	}
	time.Sleep(time.Duration(w.random.IntN(1000)) * time.Millisecond)
}

// check compares a provider of the leader with what should be.
func (w *walk) check(one *managed, s *side) {
	w.t.Helper()
	now := one.slot.Serving()
	if now == nil {
		w.t.Errorf("%s: nothing serves; the source has %q; %+v", one.name, s.offered, w.statusOf(one.name))
		return
	}
	serves := now.Digests().Config
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
	w.checkConfiguration(one, s, published)
	if s.doubtful {
		return
	}
	instances, _ := one.provider.InstancesV2()
	for range 3 { // the first may be answered later
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

// checkConfiguration compares with the newest file that could be taken up.
func (w *walk) checkConfiguration(one *managed, s *side, published status.Status) {
	w.t.Helper()
	c, want := one.loader.config(), w.leader.inForce
	if got := (says{int(c.Requests.PerSecond), int(c.Ops.Timeout.Seconds())}); got != want[one.name] {
		w.t.Errorf("%s: %+v is in force, want %+v", one.name, got, want[one.name])
	}
	if accepted := !meta.IsStatusConditionFalse(published.Conditions, conditionConfigured); accepted != w.leader.accepted {
		w.t.Errorf("%s: the status says that the file is accepted: %v, want %v", one.name, accepted, w.leader.accepted)
	}
	if version := one.loader.Revision(); s.able() && !strings.Contains(published.Serving.Revision, version) {
		w.t.Errorf("%s: the terms are %s, and %s serves", one.name, version, published.Serving.Revision)
	}
}

// checkNetworks counts: each network that is open is that of the configuration,
// or of a generation that is loaded.
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
	names, _ := one.living.look()
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
