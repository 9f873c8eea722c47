// Package hostile holds the suite of hostile modules: guests that try to stall,
// crash or fill the manager, to reach what they were not given, or to be taken
// for an answer when they gave none. Each of them runs through the real loader,
// pool, meter, host calls and provider, on every engine that is built in, while
// a second provider is called every 10 ms and the memory of the process is
// watched.
//
// It has tests only, and may import everything of the host but its commands.
// The modules are in testdata/wat/hostile; those too large for git are built by
// the tests.
package hostile
