package report

import (
	"fmt"
	"time"
)

// Times after which something is worth telling. An alert has its own, in For.
const (
	// SlowAfter is how long a provider may put an op off before people are told, and
	// DelayedAfter before that is a Warning: some clouds take minutes for a load balancer.
	SlowAfter    = time.Minute
	DelayedAfter = 5 * time.Minute
	// WaitsAfter is how long a Node or a Pod may wait before that is a mistake.
	WaitsAfter = time.Minute
	// CertificateAhead is how long before its end a certificate is told.
	CertificateAhead = 14 * 24 * time.Hour
)

// words are a time as the documents have it, in days or minutes.
func words(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d == time.Minute:
		return "a minute"
	}
	return fmt.Sprintf("%d minutes", d/time.Minute)
}
