// Package conformance tests a provider's module against the contract of ABI v1
// (abi/SPEC.md), and reports for each clause whether it holds. Every op is
// repeatable. "Does not exist" is only answered when the cloud said so. A crash
// between any two requests leads to the same result. Throttling, timeouts and
// malformed answers of the cloud are reported as such.
//
// The module runs as in the manager: with the same engine, pool, host calls,
// grants and credentials. An injector between the module and the cloud ends ops
// and changes answers. The kit needs neither the guest's language nor its
// source.
//
// The caller provides an engine.
package conformance
