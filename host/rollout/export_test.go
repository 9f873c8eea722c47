package rollout

import "github.com/wasm-ccm/wasm-ccm/host/plugin"

// Exceeded is Budget.exceeded for tests.
func Exceeded(b Budget, now, before plugin.Tally) bool { return b.exceeded(now, before) }
