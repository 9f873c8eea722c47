package addresses_test

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// FuzzConfiguration: the entries that a HostConfiguration may have are entries
// here, so that a mistake is told with its path.
func FuzzConfiguration(f *testing.F) {
	for _, seed := range strings.Fields("10.0.0.0/8 FD00::/8 fd00::/8 ::ffff:10.0.0.0/104 10.0.0.1 ::1 ::1%eth0 localhost a.b 1234 a..b *.a A 10.0.0.1/8") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		c := &v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{{Name: "one", Source: v1alpha1.Source{Directory: "/one"}}}}
		c.Providers[0].Addresses.Allow = []string{entry}
		v1alpha1.SetDefaults(c)
		if len(validation.Validate(c)) > 0 {
			return
		}
		if _, err := addresses.New(c.Providers[0].Addresses.Allow, nil); err != nil {
			t.Fatalf("the configuration takes %q: %v", entry, err)
		}
	})
}
