package differential_test

import (
	"maps"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// validate decodes a module and checks all of its instructions, without the
// limits of the meter.
func validate(wasm []byte) error {
	m, err := wasmbin.Parse(wasm)
	if err != nil {
		return err
	}
	v, in := wasmbin.NewValidator(m), wasmbin.Instruction{}
	for i := range m.Bodies {
		r, _ := v.Enter(uint32(i), nil)
		for v.Depth() > 0 {
			if r.Instruction(&in); r.Err != nil {
				return r.Err
			}
			if err := v.Next(&in); err != nil {
				return err
			}
		}
		if err := r.Done("code"); err != nil {
			return err
		}
	}
	return nil
}

// refusedOfSuite is how many of the suites' valid modules the decoder refuses,
// all of them on purpose, by the reason in onPurpose: their opcodes and flags of
// segments are padded.
var refusedOfSuite = map[string]map[string]int{
	"v1": {"is padded": 2},
	"v2": {"is padded": 8},
}

// takenOfSuite is how many modules the decoder takes that the suites call
// invalid, by the suite's word for what is wrong with them.
var takenOfSuite = map[string]map[string]int{
	// WebAssembly 1.0 had one result, one table, and other rules for br_table in
	// code that is not reached.
	// Who takes no imported memories has one memory at most: see wasmbin.Module.
	"v1": {"invalid result arity": 4, "multiple tables": 1, "type mismatch": 1, "start function": 2, "multiple memories": 1},
	// The meter checks the type of the start function, and the imports.
	"v2": {"start function": 2, "multiple memories": 1},
}

func TestSuiteIsValidatedAsItSays(t *testing.T) {
	for version, least := range map[string][2]int{"v1": {500, 1000}, "v2": {1000, 2500}} {
		t.Run(version, func(t *testing.T) {
			refused, taken, valid, invalid := map[string]int{}, map[string]int{}, 0, 0
			for _, s := range suite(t, version) {
				err := validate(s.wasm)
				switch {
				case s.valid():
					valid++
				default:
					invalid++
				}
				switch {
				case s.valid() && err != nil:
					t.Logf("refused: %s: %v", s.name, err)
					refused[purpose(err)]++
				case !s.valid() && err == nil:
					t.Logf("taken: %s: %s", s.name, s.want)
					taken[s.want]++
				}
			}
			if !maps.Equal(refused, refusedOfSuite[version]) {
				t.Errorf("refused valid modules: %v, want %v", refused, refusedOfSuite[version])
			}
			if !maps.Equal(taken, takenOfSuite[version]) {
				t.Errorf("taken invalid modules: %v, want %v", taken, takenOfSuite[version])
			}
			if valid < least[0] || invalid < least[1] {
				t.Errorf("%d valid modules and %d invalid ones: much of the suite is missing", valid, invalid)
			}
			t.Logf("%d valid modules, %d invalid ones", valid, invalid)
		})
	}
}

// TestMeterRefusesWhatTheSuiteCallsInvalid adds what the meter checks.
func TestMeterRefusesWhatTheSuiteCallsInvalid(t *testing.T) {
	for _, s := range suite(t, "v2") {
		if _, err := meter.Rewrite(s.wasm, options); err == nil && !s.valid() {
			t.Errorf("%s: %s: it is metered", s.name, s.want)
		}
	}
}
