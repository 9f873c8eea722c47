// Package v1alpha1 is the HostConfiguration, the file behind --config: it says
// what the cluster's administrator allows providers to do. It is decoded
// strictly. It is separate from the modules: the right to replace a module does
// not include the right to extend what the module may do.
//
// It is the CloudProvider as well, which says of one provider in an object of
// the cluster what the file says.
//
// A minor release may rename or remove a field; deploy/CHANGELOG.md then says what
// to write instead. A patch release changes no field, default or Go name.
//
// The package is for other programs to import: beside the standard library and
// abi it needs Kubernetes' API machinery only. The manager's validation is not
// part of it; ccmctl check validates a file.
//
// +groupName=config.wasm-ccm.dev
package v1alpha1
