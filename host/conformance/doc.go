// Package conformance tests a provider's module against the contract of ABI v1
// (abi/SPEC.md), and reports for each clause whether it holds. Every op can be
// repeated. "Does not exist" is only said when the cloud said it. A crash between
// any two requests leads to the same end. A cloud that throttles, hangs or answers
// rubbish is reported as such.
//
// The module runs as in the manager: the same engine, pool, host calls, grants
// and credentials. Between the module and the cloud stands an injector, which
// ends ops and changes answers. The kit needs neither the guest's language nor
// its source.
//
// The caller provides an engine.
package conformance
