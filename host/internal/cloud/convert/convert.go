// Package convert translates between Kubernetes objects and the messages of
// the ABI. Its functions are pure: they keep and change nothing of what they
// are given, and what they return shares only strings with it.
//
// What a guest answered is checked on the way back: a Kubernetes object that
// comes out of here is one that the API server would take, or there is an
// error that says what is wrong with the answer.
package convert
