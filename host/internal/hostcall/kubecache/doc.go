// Package kubecache answers a provider's questions about objects of the cluster from watches
// of the API server: the current objects, and the changes since an earlier answer. Each
// object is trimmed and encoded once for each of its versions, for all instances of all
// providers. It also sends the few changes that a provider may make to the object of its op.
//
// A Grant says what may be read and changed. The watches of all grants are shared.
package kubecache
