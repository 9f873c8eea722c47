package main

import "strings"

// The paths of this project's programs and files in the templates of a guest
// for upstream's interface: in a checkout, or of a release.

// Ccmctl is the command as typed in the new directory.
func (f *newFlags) Ccmctl() string {
	if f.Checkout != "" {
		return f.Checkout + "/build/ccmctl"
	}
	return "ccmctl"
}

// Chart is the chart for helm install.
func (f *newFlags) Chart() string {
	if f.Checkout != "" {
		return f.Checkout + "/deploy/chart"
	}
	return "wasm-ccm-" + strings.TrimPrefix(f.SDK, "v") + ".tgz"
}
