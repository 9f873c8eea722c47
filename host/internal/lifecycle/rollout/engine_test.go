package rollout_test

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// onWasmtime are the terms h1 on the second engine.
var onWasmtime = rollout.Terms("h1", "wasmtime")

func TestTermsSayTheEngine(t *testing.T) {
	for engineName, terms := range map[string]string{"wazero": "h1", "wasmtime": "h1@wasmtime"} {
		r := rollout.ParseRevision("m", rollout.Revision{Bundle: "b", Terms: rollout.Terms("h1", engineName)}.String())
		if r.Terms != terms || r.Engine() != engineName {
			t.Errorf("%s: terms %q, engine %q", engineName, r.Terms, r.Engine())
		}
	}
}

// What was kept is trusted with another password, and on trial on another engine.
func TestAnotherEngineIsATrial(t *testing.T) {
	w, trials := withTrials(t, &journal{})
	w.run(true)
	w.offer("one")
	w.until(rollout.Kept)
	var standings []trial.Standing
	trials.set(func(_ string, s trial.Standing) error {
		standings = append(standings, s)
		return nil
	})
	for _, terms := range []string{"h2", onWasmtime} {
		w.terms(terms)
		w.until(rollout.Shadowed)
		w.until(rollout.Serving)
		w.pass(w.policy.ObservePeriod)
		w.until(rollout.Kept)
	}
	if len(standings) != 2 || standings[0] != trial.LastResort || standings[1] != trial.Offered {
		t.Errorf("standings %v", standings)
	}
	w.journal.await(func(r rollout.Record) bool { return len(r.Saved) > 0 && r.Saved[0].Engine == "wasmtime" })
}

// After a restart what was kept on another engine waits for the leader to try it.
func TestAnotherEngineAfterARestartIsATrial(t *testing.T) {
	one := bundle(t, "one")
	w, trials := withTrials(t, remembering(one))
	var standings []trial.Standing
	trials.verdict = func(_ string, s trial.Standing) error {
		standings = append(standings, s)
		if s == trial.Standby {
			return &trial.Busy{}
		}
		return nil
	}
	w.loader.revision.Store(onWasmtime)
	w.run(false)
	w.Lead()
	if got := w.until(rollout.Kept); got.Serving.Engine != "wasmtime" {
		t.Errorf("%+v serves", got.Serving)
	}
	if len(standings) != 2 || standings[0] != trial.Standby || standings[1] != trial.Offered {
		t.Errorf("standings %v", standings)
	}
}
