package grant_test

import (
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// The configuration's limits of a compilation reach the compiler.
func TestLimitsOfACompilation(t *testing.T) {
	c, err := validation.Decode([]byte(`
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- name: large
  source: {directory: /provider}
  limits: {compile: {memory: 2Gi, cpu: 5m, wall: 10m, output: 512Mi}}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := grant.Loader(plugin.Loader{}, &c.Providers[0]).Limits.Compile
	want := compile.Limits{
		MemoryBytes: 2 << 30, CPU: 5 * time.Minute, Wall: 10 * time.Minute, OutputBytes: 512 << 20,
		Setting: "providers[].limits.compile of the HostConfiguration",
	}
	if got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
}
