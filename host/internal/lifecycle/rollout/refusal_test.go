package rollout

import "testing"

// What went back on one engine stays out on it with another password, and is
// tried on the other engine.
func TestTheEngineIsToBlame(t *testing.T) {
	on := func(allowed, engineName string) Revision {
		return Revision{Module: "a", Bundle: "a", Terms: Terms(allowed, engineName)}
	}
	s := State{Phase: Waiting}
	s.Lead(all)
	s.Resumed(on("h1", "wazero"), on("h1", "wazero"))
	serve := func(r Revision) {
		t.Helper()
		want(t, s.Offer(r, false), Load)
		want(t, s.Loaded(all), Probe)
		want(t, s.ProbeDone("", all), Shadow)
		want(t, s.Rehearsed(Evidence{Differs: ""}, all), Serve)
		want(t, s.Served(all), Observe)
	}
	serve(on("h1", "wasmtime"))
	want(t, s.Unfit(ReasonErrorBudget, "it traps", all), RollBack)
	if r := s.Refused[0]; r.Scope != ScopeEngine {
		t.Errorf("scope %q", r.Scope)
	}
	want(t, s.Offer(on("h2", "wasmtime"), false), Drop)
	serve(on("h2", "wazero"))
}
