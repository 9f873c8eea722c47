// Package node runs the manager where it belongs: as a pod, on a kubelet, with
// containerd and runc, beside a real etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler. `make test-node` runs it, as root.
//
// A machine of the cluster is a process that holds namespaces for the network,
// the host's name and mounts. The test itself, and all that it starts, is in a
// namespace for processes: when the test ends, in whatever way, the kernel ends
// all of it, and with it go the networks and mounts. Files are below
// $CCM_BUILD/node, cgroups below /wasm-ccm-node; both are removed at the end, or
// at the beginning of the next run. Nothing else of the machine changes.
//
// It has only tests.
package node
