package routing

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Whoever asks while the rules are replaced, again and again, sees those of
// before or those of after: no object is ever two providers'.
func TestRulesAreReplacedAsAWhole(t *testing.T) {
	sets := [][]Rules{
		{{Provider: "a", Schemes: []string{"x"}, DefaultServices: true}, {Provider: "b", Schemes: []string{"y"}, VolumeDrivers: []string{"d"}}},
		{{Provider: "a", Schemes: []string{"y"}, VolumeDrivers: []string{"d"}}, {Provider: "b", Schemes: []string{"x"}, DefaultServices: true}},
		{{Provider: "b", Schemes: []string{"x", "y"}, DefaultServices: true, VolumeDrivers: []string{"d"}}},
	}
	r := mustNew(t, sets[0]...)
	var clouds = map[string]*guarded{}
	for _, name := range []string{"a", "b"} {
		clouds[name] = r.Cloud(name, &fakeCloud{}, CloudOptions{}).(*guarded)
	}
	nodes, services := [2]func(*corev1.Node) bool{r.Nodes("a"), r.Nodes("b")}, [2]func(*corev1.Service) bool{r.Services("a"), r.Services("b")}
	done, asking := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				// Each of these reads the rules once, so both at once are no contradiction;
				// that the owner of a load balancer keeps it is none at any time.
				nodes[0](node("x://1", ""))
				nodes[1](node("x://1", ""))
				if services[0](service("b", "a")) {
					t.Error("a Service whose load balancer is b's is a's")
				}
				clouds["a"].owns(node("y://1", ""))
				r.UnroutedService(service("", ""))
				r.UnroutedNode(node("z://1", ""))
			}
		})
	}
	for i := range 3000 {
		next, err := r.Next(sets[i%len(sets)])
		if err != nil {
			t.Fatal(err)
		}
		changed := r.Changed()
		next.Replace()
		select {
		case <-changed:
		default:
			t.Fatal("nobody is told")
		}
		owners := 0
		for n := range nodes {
			if nodes[n](node("x://1", "")) {
				owners++
			}
		}
		if owners != 1 {
			t.Fatalf("a Node has %d providers", owners)
		}
	}
	close(done)
	asking.Wait()
}

// Rules with a mistake are not in force, and those before are.
func TestWrongRulesAreNotTaken(t *testing.T) {
	r := two(t)
	if _, err := r.Next([]Rules{{Provider: "a", Schemes: []string{"s"}}, {Provider: "b", Schemes: []string{"s"}}}); err == nil {
		t.Error("no error")
	}
	if !r.Services("a")(service("a", "")) {
		t.Error("the rules before are gone")
	}
}

// Differs says whose loops have to begin anew: those whose own rules change, and
// everybody's where one had everything.
func TestWhoseRulesDiffer(t *testing.T) {
	a, b := Rules{Provider: "a", Schemes: []string{"a"}}, Rules{Provider: "b", Schemes: []string{"b"}}
	with := func(r Rules, change func(*Rules)) Rules { change(&r); return r }
	for name, test := range map[string]struct {
		before, after []Rules
		want          bool
	}{
		"another one comes":             {[]Rules{a}, []Rules{a, b}, false},
		"another one goes":              {[]Rules{a, b}, []Rules{a}, false},
		"another one becomes default":   {[]Rules{a, b}, []Rules{a, with(b, func(r *Rules) { r.DefaultServices = true })}, false},
		"it becomes default":            {[]Rules{a, b}, []Rules{with(a, func(r *Rules) { r.DefaultServices = true }), b}, true},
		"it has another class":          {[]Rules{a}, []Rules{with(a, func(r *Rules) { r.Classes = []string{"example.com/a"} })}, true},
		"it has other volumes":          {[]Rules{a}, []Rules{with(a, func(r *Rules) { r.VolumeSchemes = []string{"v"} })}, false},
		"it had everything":             {[]Rules{{Provider: "a"}}, []Rules{{Provider: "a"}, b}, true},
		"it has everything from now on": {[]Rules{{Provider: "a"}, b}, []Rules{{Provider: "a"}}, true},
	} {
		next, err := mustNew(t, test.before...).Next(test.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := next.Differs("a"); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A provider that is gone is not asked about Nodes any more.
func TestWhoIsGoneIsNotAsked(t *testing.T) {
	r := two(t)
	a := instancesOf(t, r.Cloud("a", &fakeCloud{metadata: id("a://1")}, CloudOptions{}))
	r.Cloud("b", &fakeCloud{metadata: id("b1://1")}, CloudOptions{})
	if _, err := a.InstanceMetadata(t.Context(), node("", "")); err == nil {
		t.Error("both know the Node, and there is no error")
	}
	next, err := r.Next([]Rules{{Provider: "a", Schemes: []string{"a"}, AskNodes: true}})
	if err != nil {
		t.Fatal(err)
	}
	next.Replace()
	if _, err := a.InstanceMetadata(t.Context(), node("", "")); err != nil {
		t.Error(err)
	}
}
