// Package v1alpha1 holds the answers of the manager's API, which ccmctl and the
// status page read. The manager serves it on its secure port (10258), as JSON,
// read-only, to whoever may get the paths as non-resource URLs:
//
//	GET /wasm-ccm/v1alpha1/status
//	GET /wasm-ccm/v1alpha1/why?kind=Service&namespace=default&name=web
//	GET /wasm-ccm/v1alpha1/calls?provider=static
//	GET /wasm-ccm/v1alpha1/reachability
//
// The status page is the same for people: /wasm-ccm/status, /wasm-ccm/why and
// /wasm-ccm/calls.
//
// An error is a metav1.Status, as the API server answers one. Every text is one
// printable line; secrets, and private configurations, are in none of them.
//
// A minor release may rename or remove a field; deploy/CHANGELOG.md then says so. A
// patch release does not. Ignore fields and words that you do not know: any release
// may add some. The package is for other programs to import, and needs nothing but
// Kubernetes' API machinery.
package v1alpha1
