//go:build !wasm

package sdk

// Serve registers p as this module's provider. Call it once, from an init
// function of the main package. Outside of WebAssembly it does nothing, so that
// a guest's main package can be tested.
func Serve(Provider) {}

// ServeSigner is Serve for a signer.
func ServeSigner(Signer) {}

// OnResume registers f to run in each instance that begins as a copy of a
// configured one, before its first op. Outside of WebAssembly there are none.
func OnResume(func()) {}
