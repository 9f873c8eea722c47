//go:build !tinygo

package sdk

// serveRandom does nothing: crypto/rand of stock Go asks the host each time.
func serveRandom() {}
