package manager

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const walkSteps = 20

// Managers under all kinds of events: offers good and bad, reloads, Secrets,
// failover, an unavailable API server, providers that are removed and added
// again. In any order, the right module serves.
//
// WALK_SEED is the only seed, or the first one for WALK_FOR, as 5m.
func TestRandomWalksOfManagers(t *testing.T) {
	c, module := newCloud(t), guest(t, `["instance_exists","instance_shutdown","instance_metadata"]`)
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("WALK_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	period, err := time.ParseDuration(cmp.Or(os.Getenv("WALK_FOR"), "0s"))
	if err != nil {
		t.Fatal(err)
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

// A manager that led, its standby, and one that could not start leave no
// goroutine behind: the bubble would not end.
func TestNothingIsLeftOfAManagerThatHasEnded(t *testing.T) {
	c, module := newCloud(t), guest(t, `["instance_exists","instance_shutdown","instance_metadata"]`)
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(t, 0, newWorld(t, c, module))
		for _, name := range w.names() {
			w.rotate(name, true)
			w.offerKind(name, slow)
		}
		w.write(w.text())
		w.start()
		w.quiet()
		w.beginInvalid("")
		w.ask(1) // which continues in the background
		for _, one := range slices.Clone(w.living) {
			one.end()
		}
	})
}

// says is a provider's part of the file.
type says struct {
	requests, timeout     int
	source, store, scheme string
	engine                string
}

func first(name string) says { return says{50, 20, "source-" + name, name, name, "wazero"} }

// side is the walk's knowledge of one provider.
type side struct {
	configured bool
	says
	offered  string // "PROVIDER KIND NUMBER", "" for none
	serves   string // the digest of the expected serving module, "" if unknown
	token    string // in the Secret
	wrong    bool   // the cloud does not know it
	doubtful bool   // the serving generation may have a wrong one: the next offer brings a right one
	paused   bool
	served   bool // a module was seen serving
	told     bool // a status says that it was configured
}

// able: the offered module should serve.
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
	killed   bool // a manager was killed at least once
	numbers  int
	known    map[string]string // the offered modules, by digest
	log      []string
}

func newWalk(t *testing.T, seed uint64, w *world) *walk {
	return &walk{world: w, seed: seed, known: map[string]string{}, random: rand.New(rand.NewPCG(seed, 3)), subjects: map[string]*side{
		"one": {configured: true, says: first("one")}, "two": {configured: true, says: first("two")}, "three": {says: first("three")},
	}}
}

func (w *walk) number() int { w.numbers++; return w.numbers }

func (w *walk) names() []string { return slices.Sorted(maps.Keys(w.subjects)) }

// text is the file of --config.
func (w *walk) text() string {
	text := fileHead
	for _, name := range w.names() {
		if s := w.subjects[name]; s.configured {
			text += w.provider(name, s.says)
		}
	}
	return text
}

func (w *walk) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// run returns the number of steps.
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
		w.rotateRight, w.rotateRight, w.rotateWrong, w.reloadValid, w.reloadValid, w.reloadInvalid, w.reloadTimeout,
		w.comeOrGo, w.comeOrGo, w.comeOrGo, w.rename, w.rename, w.restore, w.reroute, w.resource, w.resource, w.otherEngine, w.otherEngine,
		w.beginInvalid, w.late, w.handOver, w.crash, w.loseLease, w.away, w.pause, w.removeOrReturn, w.rest, w.rest,
	}
	n := 0
	for ; n < walkSteps && !w.t.Failed(); n++ {
		name := w.names()[w.random.IntN(len(w.names()))]
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

// start starts a leader and a standby.
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

// says is the content of the file, if it is valid.
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
