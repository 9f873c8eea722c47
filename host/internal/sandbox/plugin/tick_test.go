package plugin

import (
	"math"
	"testing"
	"time"
)

func TestTickPeriod(t *testing.T) {
	for ms, want := range map[int64]time.Duration{
		0: 0, -1: 0, math.MinInt64: 0, 1: 10 * time.Second, 10_000: 10 * time.Second, 60_000: time.Minute,
		3_600_001: time.Hour, math.MaxInt64: time.Hour,
	} {
		if got := tickPeriod(ms); got != want {
			t.Errorf("%d: %v, want %v", ms, got, want)
		}
	}
}
