// Package guests has the start of a new guest. The providers and signers are
// main packages in its directories, the library is package sdk.
package guests

import "embed"

// Example has whole providers, which ccmctl new copies: with the SDK in the
// directory example, in plain C in example-c, in plain Rust in example-rust. What
// make leaves there is not part of it.
//
//go:embed example
//go:embed example-c/Makefile example-c/cases.yaml example-c/guest.c example-c/manifest.json
//go:embed example-rust/Makefile example-rust/build.sh example-rust/cases.yaml example-rust/guest.rs example-rust/manifest.json
var Example embed.FS
