// Package v1alpha1 is the file behind --config: what the cluster's
// administrator lets providers do. It is decoded strictly and every mistake is
// an error with its path. What it grants lies apart from the modules, so that
// who may replace a module cannot widen what it may do.
//
// It imports abi, and what reads hosts, addresses and keys (egress, addresses,
// provenance): whether they can be read is asked there, and told here with its
// path.
package v1alpha1
