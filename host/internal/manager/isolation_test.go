package manager

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A restriction of one provider is in force at once, even while another one
// waits, for up to 40 s, for its Secrets and its signers.
func TestAReloadWaitsForNoProviderThatItLeavesAlone(t *testing.T) {
	c, module := newCloud(t), guest(t, `["instance_exists","instance_shutdown","instance_metadata"]`)
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(t, 0, newWorld(t, c, module))
		for _, name := range w.names() {
			w.rotate(name, true)
			w.offerKind(name, good)
		}
		w.write(w.text())
		w.start()
		w.quiet()
		one, two := w.leader.all()[0], w.leader.all()[1]
		if err := two.changing.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.subjects[one.name].requests = 7
		w.reload(w.text())
		synctest.Wait()
		if got := one.loader.config().Requests.PerSecond; got != 7 {
			t.Errorf("provider %s has %v requests per second while provider %s is changed, want 7", one.name, got, two.name)
		}
		two.changing.Leave()
		synctest.Wait()
		for _, one := range slices.Clone(w.living) {
			one.end()
		}
	})
}
