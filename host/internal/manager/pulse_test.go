package manager

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	p := newPulse()
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	if !p.steady(at(0)) {
		t.Error("it has not begun")
	}
	for _, s := range []float64{1, 2, 4.5} {
		p.beat(at(s))
	}
	if !p.steady(at(5)) {
		t.Error("a busy machine is no stall")
	}
	if p.steady(at(8)) {
		t.Error("it stands still now")
	}
	p.beat(at(30))
	if p.steady(at(31)) {
		t.Error("it stood still a moment ago")
	}
	for s := 31.0; s < 100; s++ {
		p.beat(at(s))
	}
	if !p.steady(at(100)) {
		t.Error("that was long ago")
	}
}
