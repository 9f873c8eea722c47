//go:build !wasm

package sdk

// Serve makes p what this module serves. Call it once, from an init function
// of the main package. Outside of WebAssembly there is nothing to serve and it
// does nothing, so that a guest's main package can be tested.
func Serve(Provider) {}

// ServeSigner is as Serve, for a signer.
func ServeSigner(Signer) {}

// OnResume has f called in each instance that begins as a copy of a configured
// one, before its first op. Outside of WebAssembly there are none.
func OnResume(func()) {}
