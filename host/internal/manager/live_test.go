package manager

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	statusv1alpha1 "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// inWalk runs a test with a leader and a standby of the providers one and two.
func inWalk(t *testing.T, test func(w *walk)) {
	t.Helper()
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
		test(w)
		for _, one := range slices.Clone(w.living) {
			one.end()
		}
	})
}

// find returns a provider of a manager, or nil.
func (o *whole) find(name string) *managed {
	for _, one := range o.withEnding() {
		if one.name == name {
			return one
		}
	}
	return nil
}

// A provider with a hanging guest is removed without delay for the others. Its
// name stays taken until it has ended; a configuration that uses the name gets
// an error, and is retried automatically.
func TestARemovedProviderThatHangsHoldsUpNobody(t *testing.T) {
	inWalk(t, func(w *walk) {
		release := make(chan struct{})
		w.hang.Store(&release)
		w.offerKind("two", hangs)
		w.pass(time.Minute) // an op hangs in the background
		two, begun := w.subjects["two"], time.Now()
		two.configured = false
		w.reload(w.text())
		synctest.Wait()
		for time.Since(begun) < 2*loopsTimeout && len(w.leader.all()) > 1 {
			time.Sleep(time.Second)
		}
		if all := w.leader.all(); len(all) != 1 || w.leader.find("two") == nil {
			w.t.Errorf("%d providers, and the end of two: %v", len(all), w.leader.find("two"))
		}
		two.configured = true
		w.subjects["one"].requests = 7
		w.reload(w.text())
		time.Sleep(5 * time.Minute)
		if got := w.leader.all()[0].loader.config().Requests.PerSecond; got == 7 {
			w.t.Error("one half of a file is in force")
		}
		if message := w.configured("one"); !strings.HasPrefix(message, "HostConfigurationPending: providers: the removed provider two has not ended yet") {
			w.t.Errorf("the status says of the file: %q", message)
		}
		two.configured = false // the others are served meanwhile
		w.reload(w.text())
		synctest.Wait()
		if got := w.leader.all()[0].loader.config().Requests.PerSecond; got != 7 {
			w.t.Errorf("provider one has %v requests per second while the end of two hangs, want 7", got)
		}
		two.configured = true
		w.reload(w.text())
		synctest.Wait()
		w.hang.Store(nil)
		close(release)
		w.offerKind("two", good)
		w.quiet() // the file is unchanged
		if one := w.leader.find("two"); one == nil || !slices.Contains(w.leader.all(), one) {
			w.t.Error("the provider has not come back")
		}
	})
}

// configured is the reason and the message of the condition Configured.
func (w *walk) configured(name string) string {
	for _, c := range w.statusOf(name).Conditions {
		if c.Type == statusv1alpha1.ConditionConfigured {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// Of a refused file nothing remains, including the parts that could be built.
func TestAFileThatIsRejectedGivesBackWhatItMade(t *testing.T) {
	inWalk(t, func(w *walk) {
		four := &side{configured: true, says: first("four")}
		w.subjects["four"] = four
		w.rotate("four", true)
		w.offerKind("four", good)
		w.subjects["three"].configured = true
		w.subjects["one"].requests = 7
		before := map[*whole][]string{}
		for _, one := range w.living {
			before[one] = one.running()
			clients := 0
			refuse := func() (kubernetes.Interface, error) {
				if clients++; clients%4 == 0 { // the second added provider's
					return nil, errors.New("no client for you")
				}
				return one.line.client(), nil
			}
			one.refuse.Store(&refuse)
		}
		w.reload(w.text())
		time.Sleep(time.Second)
		for _, one := range w.living {
			one.refuse.Store(nil)
			if got := one.running(); !slices.Equal(got, before[one]) {
				w.t.Errorf("manager %s has %v, and before %v", one.name, got, before[one])
			}
			if got := one.all()[0].loader.config().Requests.PerSecond; got == 7 {
				w.t.Error("one half of a file is in force")
			}
		}
		w.reload(w.text())
		w.quiet()
		if all := w.leader.all(); len(all) != 4 {
			w.t.Errorf("%d providers after it could be taken up, want 4", len(all))
		}
	})
}

// running are the running tasks of the manager and of its providers.
func (o *whole) running() (names []string) {
	names = append(names, o.living.Running()...)
	for _, one := range o.withEnding() {
		names = append(names, one.living.Running()...)
		names = append(names, one.working.Running()...)
	}
	slices.Sort(names)
	return names
}

// Configurations may be applied concurrently, beside the file's.
func TestConfigurationsAreAppliedOneAfterTheOther(t *testing.T) {
	inWalk(t, func(w *walk) {
		done := make(chan error)
		for i := range 8 {
			w.subjects["two"].configured = i%2 == 1
			next, err := validation.Decode([]byte(w.text()))
			if err != nil {
				w.t.Fatal(err)
			}
			go func() { done <- w.leader.providers.apply(w.t.Context(), next) }()
		}
		for range 8 {
			if err := <-done; err != nil && !errors.As(err, &notYet{}) {
				w.t.Error(err)
			}
		}
		w.subjects["two"].configured = false
		w.reload(w.text())
		w.quiet()
		if phase := w.statusOf("two").Phase; phase != status.PhaseRemoved {
			w.t.Errorf("two is %s", phase)
		}
	})
}

// --cloud-config is for one provider: a second one is refused, and not retried.
func TestASecondProviderBesideACloudConfigIsRefused(t *testing.T) {
	host := &v1alpha1.HostConfiguration{Providers: make([]v1alpha1.Provider, 2)}
	err := checkCloudConfig("/etc/cloud.conf", host)
	if err == nil || errors.As(err, &notYet{}) {
		t.Errorf("error %v", err)
	}
}

// stores are the stores of a manager's loaded generations, by provider.
func (o *whole) stores() map[string][]string {
	all := map[string][]string{}
	for _, one := range o.withEnding() {
		one.loader.mu.Lock()
		for _, b := range one.loader.loaded {
			if !slices.Contains(all[b.store], one.name) {
				all[b.store] = append(all[b.store], one.name)
			}
		}
		one.loader.mu.Unlock()
	}
	return all
}

// A store is free when its last generation has ended, regardless of the file.
func TestAStoreNeverHasTwoProviders(t *testing.T) {
	inWalk(t, func(w *walk) {
		one, two := w.subjects["one"], w.subjects["two"]
		one.store, two.store = "two", "other" // in one step
		w.reload(w.text())
		time.Sleep(time.Minute)
		if message := w.configured("one"); !strings.Contains(message, "in two steps") || strings.Contains(message, "tried again") {
			w.t.Errorf("the status says of the file: %q", message)
		}
		one.store = "one"
		w.offerKind("two", unready) // the serving generation keeps its store
		w.reload(w.text())
		time.Sleep(10 * time.Second)
		one.store = "two"
		w.reload(w.text())
		time.Sleep(10 * time.Second)
		if message := w.configured("one"); !strings.Contains(message, "still in use by provider two") {
			w.t.Errorf("the status says of the file: %q", message)
		}
		w.offerKind("two", good)
		for range 240 {
			time.Sleep(time.Second)
			for store, providers := range w.leader.stores() {
				if len(providers) > 1 {
					w.t.Fatalf("the store %s is that of %v", store, providers)
				}
			}
		}
		w.quiet() // the file is unchanged
		if got := w.leader.stores()["two"]; !slices.Equal(got, []string{"one"}) {
			w.t.Errorf("the store two is that of %v", got)
		}
	})
}

// A generation that is being loaded holds its store, too, even after its
// provider was given another one.
func TestAStoreOfAGenerationThatIsMadeIsNotFree(t *testing.T) {
	inWalk(t, func(w *walk) {
		release := make(chan struct{})
		w.hang.Store(&release)
		two, three := w.subjects["two"], w.subjects["three"]
		three.configured, three.store = true, "shared"
		w.rotate("three", true)
		w.offerKind("three", stuck)
		w.reload(w.text())
		time.Sleep(time.Minute)
		three.store = "three"
		w.reload(w.text())
		time.Sleep(time.Minute)
		two.store = "shared"
		w.reload(w.text())
		time.Sleep(time.Minute)
		if message := w.configured("one"); !strings.Contains(message, "still in use by provider three") {
			w.t.Errorf("the status says of the file: %q", message)
		}
		w.hang.Store(nil)
		close(release)
		w.offerKind("three", good)
		w.quiet() // the file is unchanged
		if got := w.leader.stores()["shared"]; !slices.Equal(got, []string{"two"}) {
			w.t.Errorf("the store is that of %v", got)
		}
	})
}

// A provider with the store of a renamed one begins after that one's end, and
// others at once.
func TestARenamedProviderBeginsWhenTheFormerOneHasEnded(t *testing.T) {
	inWalk(t, func(w *walk) {
		release := make(chan struct{})
		w.hang.Store(&release)
		w.offerKind("two", hangs)
		w.pass(time.Minute)
		two, three := w.subjects["two"], w.subjects["three"]
		two.configured, three.configured, three.store = false, true, two.store
		w.subjects["one"].requests = 7
		w.reload(w.text())
		time.Sleep(10 * time.Minute)
		if one := w.leader.find("three"); one.slot.Serving() != nil || one.rollout.Waits() {
			w.t.Error("it serves with the store of one that has not ended")
		}
		if got := w.leader.find("one").loader.config().Requests.PerSecond; got != 7 {
			w.t.Errorf("another one has %v requests per second, want 7", got)
		}
		w.hang.Store(nil)
		close(release)
		two.serves = ""
		w.quiet()
	})
}
