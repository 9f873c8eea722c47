package upstream

import (
	"crypto/x509"
	"testing"
	"time"
)

// A machine starts with a wrong clock and corrects it while instances live:
// their certificates are valid before and after.
func TestCertificatesOutliveTheClock(t *testing.T) {
	var a authority
	if err := a.make(); err != nil {
		t.Fatal(err)
	}
	leaf, err := a.leaf("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{0, -24 * time.Hour, -5 * 365 * 24 * time.Hour, 5 * 365 * 24 * time.Hour} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: a.pool, DNSName: "api.example.com", CurrentTime: time.Now().Add(step)}); err != nil {
			t.Errorf("the clock is set by %v: %v", step, err)
		}
	}
}
