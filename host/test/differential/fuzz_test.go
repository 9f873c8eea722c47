package differential_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// FuzzWazero compares our decoder and meter with wazero.
func FuzzWazero(f *testing.F) {
	addSeeds(f)
	readers := []reader{newWazero(f)}
	f.Fuzz(func(t *testing.T, wasm, decisions []byte) { judge(t, readers, mutate(wasm, decisions)) })
}

// TestMutants judges mutants of the suite's modules for five seconds, or for
// DIFFERENTIAL_TIME, and says what has been compared.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	duration := mutationTime(t)
	var seeds [][]byte
	for _, s := range append(suite(t, "v2"), own(t)...) {
		const most = 4 << 10
		if len(s.wasm) <= most && validate(s.wasm) == nil {
			seeds = append(seeds, s.wasm)
		}
	}
	readers, random := engines(t), rand.New(rand.NewPCG(1, uint64(time.Now().Unix())))
	sum := struct {
		mutants, accepted, compared int
		refused, known              map[string]int
	}{refused: map[string]int{}, known: map[string]int{}}
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); sum.mutants++ {
		v := judge(t, readers, mutate(seeds[random.IntN(len(seeds))], someDecisions(random, 48)))
		if v.accepted {
			sum.accepted++
		}
		sum.compared += v.compared
		sum.refused[v.refused]++
		sum.known[v.known]++
	}
	delete(sum.refused, "")
	delete(sum.known, "")
	t.Logf("%d mutants of %d modules in %s: %d accepted, %d calls come to the same; known differences: %v; accepted by all engines and refused on purpose: %v",
		sum.mutants, len(seeds), duration, sum.accepted, sum.compared, sum.known, sum.refused)
	if sum.accepted < sum.mutants/10 {
		t.Error("few of the mutants are valid: the mutator is of little use")
	}
}

func mutationTime(t *testing.T) time.Duration {
	t.Helper()
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("DIFFERENTIAL_TIME"), "5s"))
	if err != nil {
		t.Fatal(err)
	}
	return duration
}

func someDecisions(random *rand.Rand, most int) []byte {
	decided := make([]byte, 1+random.IntN(most))
	for i := range decided {
		decided[i] = byte(random.Uint32())
	}
	return decided
}

// TestMutatedGuests compares validators on what compilers made, with a few
// changes. These modules are large: nothing is run.
func TestMutatedGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	duration, readers, random := mutationTime(t), validators(t), rand.New(rand.NewPCG(2, uint64(time.Now().Unix())))
	mutants, accepted := 0, 0
	for end := time.Now().Add(duration); time.Now().Before(end); {
		for _, g := range guests(t)[:2] {
			mutants++
			decided := someDecisions(random, 12)
			wasm := mutate(g.wasm, decided)
			ours := validate(wasm)
			if ours == nil {
				accepted++
			}
			for _, r := range readers {
				if ours != nil && r.name() == "wazero" {
					continue // it makes room for whatever a module says it holds
				}
				if theirs := r.accepts(wasm); (theirs == nil) != (ours == nil) && (ours == nil || purpose(ours) == "") {
					t.Fatalf("%s, changed by %x: we say %v, %s says %v", g.name, decided, ours, r.name(), theirs)
				}
			}
		}
	}
	t.Logf("%d mutants of two guests, %d accepted", mutants, accepted)
}
