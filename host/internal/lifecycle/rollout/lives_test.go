package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// lifeSteps is how long each life is.
const lifeSteps = 40

// TestRandomLives lets a leader and a standby live through whatever may happen
// to them, with a journal that fails and processes that are killed, and looks
// after each step at what must never be. Nothing of a process may be left when
// it has ended: a goroutine without an owner fails the test.
func TestRandomLives(t *testing.T) {
	bundles, n := allBundles(t), lives
	if wanted := os.Getenv("LIVES"); wanted != "" { // make test-lives
		var err error
		if n, err = strconv.Atoi(wanted); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		n /= 8
	}
	for seed := range uint64(n) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newLife(t, seed, bundles).run() })
		})
		if !ok {
			return // one is enough to read
		}
	}
}

// allBundles are some modules with some configurations each. The stub engine
// does what the configuration says.
func allBundles(t *testing.T) (all []source.Bundle) {
	for _, module := range []string{"m0", "m1", "m2", "suspect"} {
		for _, config := range []string{"good", "fine", "trap", "no-probe", "differs"} {
			all = append(all, moduleBundle(t, module, module+" "+config))
		}
	}
	return all
}

// life is that of a leader and a standby.
type life struct {
	t       *testing.T
	random  *rand.Rand
	bundles []source.Bundle
	policy  rollout.Policy
	away    atomic.Bool
	terms   atomic.Value

	offered source.Bundle // what the source holds
	failing error         // or why it cannot be read
	journal *faulty
	book    *shelf
	kept    map[string]bool // the bundles that were good at some time
	keptNow sync.Map        // what was told to be kept since rest
	again   bool            // something else was offered before
	others  bool            // another module was offered since the last rollback by a person
	leader  *liver
	standby *liver
	trace   []string
}

// liver is one process.
type liver struct {
	*rollout.Rollout
	*life
	name    string
	seen    bool   // it was offered a bundle: it knows what is new
	host    string // a process that is started again has the same
	book    *bookOf
	slot    *plugin.Slot
	journal *handle
	last    atomic.Pointer[rollout.Report]
	state   atomic.Pointer[rollout.State]
	loaded  atomic.Pointer[[]rollout.Revision]
	cancel  context.CancelFunc
	ended   chan error
}

func newLife(t *testing.T, seed uint64, bundles []source.Bundle) *life {
	random := rand.New(rand.NewPCG(seed, 2))
	modes := []rollout.Mode{rollout.Required, rollout.Allowed, rollout.Off}
	l := &life{
		t: t, random: random, bundles: bundles, kept: map[string]bool{}, journal: &faulty{}, book: &shelf{},
		policy: rollout.Policy{
			Modes:         rollout.Modes{Probe: modes[random.IntN(3)], Shadow: modes[random.IntN(3)], Observe: modes[random.IntN(3)]},
			ObservePeriod: time.Minute, Budget: rollout.Budget{Failures: 3, Percent: 5},
		},
		offered: bundles[random.IntN(len(bundles))],
	}
	l.terms.Store("h0")
	return l
}

func (l *life) run() {
	defer func() {
		for _, p := range []*liver{l.leader, l.standby} {
			if p != nil {
				p.stop()
			}
		}
	}()
	l.leader = l.start("a", "x")
	l.leader.Lead()
	l.rest()
	for n := range lifeSteps {
		before := l.leader.State()
		what := l.step(n)
		l.rest()
		after := l.leader.State()
		l.trace = append(l.trace, fmt.Sprintf("%s: %s; journal %v", what, after.String(), l.journal))
		wrong := l.never(what, before)
		if wrong == "" && strings.HasPrefix(what, "offer") {
			wrong = l.comesBack()
		}
		if wrong != "" {
			l.t.Fatalf("%s, with %+v:\n%s", wrong, l.policy.Modes, strings.Join(l.trace, "\n"))
		}
	}
	if wrong := l.inTheEnd(); wrong != "" {
		l.t.Fatalf("%s, with %+v; book %+v:\n%s", wrong, l.policy.Modes, l.book.book, strings.Join(l.trace, "\n"))
	}
}

// inTheEnd mends everything but the past: when anything was ever kept, something serves.
func (l *life) inTheEnd() string {
	l.journal.fail(0, 0)
	l.away.Store(false)
	l.rest()
	l.restart("last")
	for range 3 {
		time.Sleep(time.Hour)
		l.rest()
	}
	s := l.leader.State()
	l.trace = append(l.trace, fmt.Sprintf("in the end: %s; journal %v", s.String(), l.journal))
	for _, saved := range l.journal.read().Saved {
		if saved.Kept && s.Serving.Bundle == "" {
			return "nothing serves, and something was kept"
		}
	}
	return ""
}

// rest waits until nothing happens any more by itself.
func (l *life) rest() {
	synctest.Wait()
	l.keptNow.Range(func(bundle, _ any) bool {
		l.kept[bundle.(string)] = true
		return true
	})
	if good := l.leader.State().Good; l.leader.State().Leading && good.Bundle != "" {
		l.kept[good.Bundle] = true
	}
}

// comesBack: who offers again what was kept once means it, in every state.
func (l *life) comesBack() string {
	s := l.leader.State()
	wanted := l.offered.Revision
	switch {
	case !l.again || !s.Leading || l.failing != nil || l.away.Load() || strings.HasPrefix(wanted, "suspect") || s.Paused:
	case !s.Known(s.Offered) || s.Offered.Bundle != wanted:
	case s.Serving.Bundle != wanted && (!takenBack(&s) || l.others):
		return "what was kept once is offered again, and does not serve: " + wanted
	}
	return ""
}

// takenBack: a person took the module back that is offered.
func takenBack(s *rollout.State) bool {
	r := s.Refusal(s.Offered)
	return r != nil && r.Reason == rollout.ReasonByOperator && r.Scope == rollout.ScopeModule
}

// step does one thing and says what.
func (l *life) step(n int) string {
	switch l.random.IntN(16) {
	case 0, 1, 2:
		next := l.bundles[l.random.IntN(len(l.bundles))]
		if kept := slices.Sorted(maps.Keys(l.kept)); len(kept) > 0 && l.random.IntN(3) == 0 {
			wanted := kept[l.random.IntN(len(kept))]
			next = l.bundles[slices.IndexFunc(l.bundles, func(b source.Bundle) bool { return b.Revision == wanted })]
		}
		l.again = l.leader.seen && (l.failing != nil || next.Revision != l.offered.Revision)
		l.others = l.others || next.ModuleDigest() != l.offered.ModuleDigest()
		l.offered, l.failing = next, nil
		l.offer()
		return "offer " + l.offered.Revision
	case 3:
		l.failing = errors.New("the source is away")
		l.offer()
		return "no source"
	case 4:
		l.terms.Store(fmt.Sprint("h", l.random.IntN(3)))
		l.leader.Reload()
		if l.standby != nil {
			l.standby.Reload()
		}
		return fmt.Sprint("terms ", l.terms.Load())
	case 5, 6:
		asked := 1 + l.random.IntN(6)
		for range asked {
			_ = l.leader.slot.Invoke(l.t.Context(), abi.OpInstanceExists, question, &abi.InstanceExistsResponse{})
			synctest.Wait()
		}
		return fmt.Sprint("ask ", asked)
	case 7, 8, 9:
		d := []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 70 * time.Second, 2 * time.Hour}[l.random.IntN(5)]
		time.Sleep(d)
		return fmt.Sprint("pass ", d)
	case 10:
		return l.command(rollout.CommandPause)
	case 11:
		return l.command([]string{rollout.CommandResume, rollout.CommandPromote}[l.random.IntN(2)])
	case 12:
		l.others = false
		return l.command(rollout.CommandRollback)
	case 13:
		l.journal.fail(l.random.IntN(4), l.random.IntN(4))
		return "the journal fails"
	case 14:
		l.away.Store(l.random.IntN(2) == 0)
		return fmt.Sprint("away ", l.away.Load())
	}
	return l.change(fmt.Sprint("p", n))
}

func (l *life) offer() {
	for _, p := range []*liver{l.leader, l.standby} {
		if p != nil {
			p.Offer(l.offered, l.failing)
			p.seen = p.seen || l.failing == nil
			synctest.Wait()
		}
	}
}

func (l *life) command(kind string) string {
	if err := l.leader.Command(rollout.Command{Kind: kind, Argument: "true"}); err != nil {
		return kind + " dropped"
	}
	return kind
}

// change starts a standby, or has it take over from a leader that is killed or
// ends as it should.
func (l *life) change(name string) string {
	if l.standby == nil && l.random.IntN(2) == 0 {
		return l.restart(name)
	}
	if l.standby == nil {
		l.standby = l.start(name, map[string]string{"x": "y", "y": "x"}[l.leader.host])
		return "a standby"
	}
	what := "takeover"
	if l.random.IntN(2) == 0 {
		what = "kill"
		l.leader.journal.dead.Store(true)
	}
	l.leader.leaves()
	healthy := l.journal.healthy()
	was := l.leader.State()
	l.leader.stop()
	if what == "takeover" && healthy && was.Leading {
		if wrong := l.journal.holds(was); wrong != "" {
			l.t.Fatalf("a leader that ended as it should has left another record: %s:\n%s", wrong, strings.Join(l.trace, "\n"))
		}
	}
	l.leader, l.standby = l.standby, nil
	l.leader.Lead()
	return what
}

// restart ends the only process, and begins another one, which has to begin with
// what was kept, if it can be read.
func (l *life) restart(name string) string {
	if l.random.IntN(4) == 0 { // the machine
		l.book.boot++
	}
	l.leader.journal.dead.Store(l.random.IntN(2) == 0)
	l.leader.leaves()
	l.leader.stop()
	if l.standby != nil {
		l.standby.leaves()
		l.standby.stop()
		l.standby = nil
	}
	record, healthy := l.journal.read(), l.journal.healthy()
	offered, failing := l.offered, l.failing
	l.failing = errors.New("not read yet")
	l.leader = l.start(name, l.leader.host)
	begins := l.leader.State().Serving.Bundle
	if healthy && begins != "" && !slices.ContainsFunc(record.Saved, func(s rollout.Saved) bool { return s.Revision == begins }) {
		l.t.Fatalf("it begins with %q, which is not saved:\n%s", begins, strings.Join(l.trace, "\n"))
	}
	l.leader.Lead()
	synctest.Wait()
	l.offered, l.failing = offered, failing
	l.offer()
	return "kill" // what it was told and has not written is lost
}

// never says what is wrong, or "".
func (l *life) never(what string, before rollout.State) string {
	for _, p := range []*liver{l.leader, l.standby} {
		if p == nil {
			continue
		}
		if wrong := p.never(); wrong != "" {
			return p.name + ": " + wrong
		}
	}
	s := l.leader.State()
	takeover := what == "kill" || what == "takeover"
	switch {
	case takeover:
	case before.Serving.Bundle != "" && s.Serving.Bundle == "":
		return "nothing serves any more"
	case before.Leading && before.Paused && s.Paused && s.Serving.Bundle != before.Serving.Bundle && before.Serving.Bundle != "" && !before.Promoted &&
		what != rollout.CommandPromote && s.Serving.Bundle != before.Good.Bundle && what != rollout.CommandRollback:
		return "something new serves although it is paused"
	case takenBack(&before) && before.Offered.Module == s.Offered.Module && before.Offered.Bundle != s.Offered.Bundle && s.Serving.Module == s.Offered.Module && what != rollout.CommandPromote:
		return "a changed configuration has undone a rollback"
	case before.Leading && s.Paused != before.Paused && what != rollout.CommandPause && what != rollout.CommandResume:
		return "nobody has paused or resumed it"
	}
	if wrong := l.journal.wrong(); wrong != "" {
		return wrong
	}
	record := l.journal.read()
	for _, s := range record.Saved {
		if s.Kept && !l.kept[s.Revision] {
			return "the record calls kept what nobody has kept: " + s.Revision
		}
	}
	if !s.Leading || what != "pass 2h0m0s" {
		return ""
	}
	now := s.Serving
	now.Terms = l.terms.Load().(string)
	suspected := strings.HasPrefix(now.Bundle, "suspect") // it is tried by nobody whom no person has told to
	if s.Serving.Bundle != "" && s.Serving != now && s.Refusal(now) == nil && !suspected && !l.away.Load() {
		return fmt.Sprintf("what serves has not the terms of now, %s", now.Terms)
	}
	if l.journal.healthy() {
		return l.journal.holds(s)
	}
	return ""
}

// never is what holds for each process.
func (p *liver) never() string {
	s := p.State()
	serving := p.slot.Serving()
	switch {
	case (serving == nil) != (s.Serving.Bundle == ""):
		return "the slot and the state differ"
	case serving != nil && plugin.Bundle{Config: []byte(s.Serving.Bundle)}.Digests().Config != serving.Digests().Config:
		return "another one is in the slot than the state says"
	case serving != nil && serving.Digests().Module != s.Serving.Module:
		return "another module is in the slot than the state says"
	case s.Refusal(s.Serving) != nil:
		return "what serves is refused"
	case s.Refusal(s.Good) != nil:
		return "what is good is refused"
	case s.Refusal(s.Previous) != nil && s.Refusal(s.Previous).Phase != rollout.Held:
		return "what is in reserve went back"
	case s.Phase != rollout.Held && s.Refusal(s.Candidate) != nil:
		return "the candidate is refused"
	}
	for _, revision := range p.Loaded() {
		if !slices.Contains([]rollout.Revision{s.Serving, s.Good, s.Previous, s.Candidate}, revision) {
			return fmt.Sprintf("%s is loaded for nothing", revision)
		}
	}
	for _, revision := range []rollout.Revision{s.Serving, s.Good, s.Previous} {
		if revision.Bundle != "" && !slices.Contains(p.Loaded(), revision) {
			return fmt.Sprintf("%s is not loaded", revision)
		}
	}
	if last := p.last.Load(); last != nil && (last.Serving == nil) == (serving != nil) {
		return "what is reported to serve does not"
	}
	return ""
}
