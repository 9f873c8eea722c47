// Package v1alpha1 is the HostConfiguration, the file behind --config: it says
// what the cluster's administrator allows providers to do. It is decoded
// strictly, and every mistake is an error with its path. It is separate from the
// modules: the right to replace a module does not include the right to extend
// what the module may do.
//
// The rooms that use hosts, addresses and keys (egress, addresses, provenance)
// also check their syntax; an error gets its path here.
//
// It is the CloudProvider as well, which says of one provider in an object of
// the cluster what the file says.
//
// +groupName=config.wasm-ccm.dev
package v1alpha1
