package egress

import (
	"net/netip"
	"testing"
)

// Connecting to them is not for a test.
func TestPublicAddresses(t *testing.T) {
	for _, address := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00::1", "64:ff9b::808:808"} {
		if err := newVetter().check(netip.MustParseAddr(address), nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
