// Package hostconfig reads a HostConfiguration as the manager does, for tests that
// are outside of host and so cannot import its validation.
package hostconfig

import (
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// Decode is that of package validation.
func Decode(data []byte) (*v1alpha1.HostConfiguration, error) { return validation.Decode(data) }
