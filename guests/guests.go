// Package guests has the start of a new guest. The providers and signers are
// main packages in its directories, the library is package sdk.
package guests

import "embed"

// Example has whole providers, which ccmctl new copies: with the SDK in the
// directory example, in C in example-c.
//
//go:embed example example-c
var Example embed.FS
