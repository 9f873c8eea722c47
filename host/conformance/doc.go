// Package conformance walks a provider's module through the contract of ABI v1
// (abi/SPEC.md) and says of each clause whether it holds: that every op can be
// repeated, that "does not exist" is only ever said when the cloud said it,
// that a crash between any two requests leads to the same end, that a cloud
// which throttles, hangs or answers rubbish is reported as such.
//
// The module runs as in the manager: the same engine, pool, host calls, grants
// and credentials. Between it and the cloud stands an injector, which ends ops
// and spoils answers. Nothing of a guest's language or source is asked for.
//
// The caller brings an engine.
package conformance
