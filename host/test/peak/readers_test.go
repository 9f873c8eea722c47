package peak_test

import (
	"slices"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/test/peak"
)

type peakCase = peak.Case

// Each reader of foreign bytes in the manager's own process takes little more
// memory with the worst input than with an ordinary one.
func TestHostileInputTakesLittle(t *testing.T) {
	peak.Test(t, slices.Concat(imageCases(), objectCases(), cloudCases()))
}
