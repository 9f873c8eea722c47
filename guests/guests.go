// Package guests has the start of a new guest. The providers and signers are
// main packages in its directories, the library is package sdk.
package guests

import "embed"

// Example is a whole provider, in the directory example: ccmctl new copies it.
//
//go:embed example
var Example embed.FS
