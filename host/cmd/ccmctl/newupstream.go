package main

import "strings"

// What the templates of a guest for upstream's interface call the programs and
// files of ours: those of a checkout, or of a release.

// Ccmctl is the command, as somebody in the new directory types it.
func (f *newFlags) Ccmctl() string {
	if f.Checkout != "" {
		return f.Checkout + "/build/ccmctl"
	}
	return "ccmctl"
}

// Chart is what helm installs.
func (f *newFlags) Chart() string {
	if f.Checkout != "" {
		return f.Checkout + "/deploy/chart"
	}
	return "wasm-ccm-" + strings.TrimPrefix(f.SDK, "v") + ".tgz"
}
