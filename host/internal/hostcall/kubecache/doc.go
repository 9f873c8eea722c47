// Package kubecache answers a provider's questions about objects of the cluster, from
// what watches of the API server have told: what is there, and what has changed
// since an answer before. Each object is trimmed and encoded once for each of its
// versions, for all instances of all providers. It also sends the few changes
// that a provider may make to the object of its op.
//
// What may be read and changed is a Grant. The watches of all grants are shared.
package kubecache
