package brake

import (
	"testing"
	"time"
)

// FuzzRecord reads what a ConfigMap may hold of the brake: no trust is put off
// for longer than a period.
func FuzzRecord(f *testing.F) {
	f.Add(`{"permits":3,"at":"2026-01-01T00:00:00Z","distrusted":"9999-12-31T00:00:00Z"}`)
	f.Add(`{}`)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := rate{period: time.Hour}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := decode(text, now, r)
		if err == nil && k.Distrusted.After(now.Add(r.period+distrustSlack)) {
			t.Fatalf("%q: distrusted until %s", text, k.Distrusted)
		}
	})
}
