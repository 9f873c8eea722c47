// Package guests has what a new guest begins with. The providers and signers
// are main packages in its directories, the library is package sdk.
package guests

import "embed"

// Example is a whole provider, in the directory example: ccmctl new copies it.
//
//go:embed example
var Example embed.FS
