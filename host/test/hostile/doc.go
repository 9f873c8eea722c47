// Package hostile holds the suite of hostile modules: guests that try to stall,
// crash or fill the manager, to reach something that was not granted, or to have
// a failure taken for an answer. Each of them runs through the real loader, pool,
// meter, host calls and provider, on every engine that is built in. Meanwhile a
// second provider is called every 10 ms, and the memory of the process is
// watched.
//
// It has only tests. The modules are in testdata/wat/hostile; the tests build
// those that are too large for git.
package hostile
