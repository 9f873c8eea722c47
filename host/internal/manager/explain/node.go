package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Node says why a Node is initialised, or is not, and why it stays.
func Node(n *corev1.Node, f Facts) v1alpha1.Explanation {
	e := begin(v1alpha1.KindNode, "", n.Name, f)
	tainted := has(n, cloudproviderapi.TaintExternalCloudProvider)
	switch {
	case f.Provider == nil && f.Advice != "":
		is(&e, v1alpha1.StateStuck, NoProvider, "%s", f.Advice)
		since(&e, n.CreationTimestamp.Time)
		next(&e, fmt.Sprintf("kubectl label --overwrite node %s wasm-ccm.dev/provider=%s", n.Name, oneOf(f.Providers)), "name the provider that has the machine")
	case f.Provider == nil:
		is(&e, v1alpha1.StateIgnored, NoProvider, "no provider of this manager has it (its provider ID is %q), so it is left alone", n.Spec.ProviderID)
	case f.Held != nil:
		held(&e, n, f)
	case !tainted && n.Spec.ProviderID == "":
		is(&e, v1alpha1.StateStuck, NotHandedOver, "it has neither a provider ID nor the taint %s: its kubelet registered without --cloud-provider=external, so no manager initialises it", cloudproviderapi.TaintExternalCloudProvider)
		since(&e, n.CreationTimestamp.Time)
		next(&e, fmt.Sprintf("kubectl taint node %s %s=true:NoSchedule", n.Name, cloudproviderapi.TaintExternalCloudProvider), "hand it over by the taint, and set the kubelet's flag for the next time")
	case idle(&e, f, nodeLoop), tainted && asked(&e, f), heard(&e, f):
	case tainted:
		is(&e, v1alpha1.StateProgressing, NotAskedYet, "the node controller has not come to it yet")
		since(&e, n.CreationTimestamp.Time)
		e.WaitsFor = "its turn"
	default:
		is(&e, v1alpha1.StateDone, "", "provider %s has initialised it as %s", e.Provider, n.Spec.ProviderID)
	}
	if has(n, cloudproviderapi.TaintNodeShutdown) {
		e.Also = append(e.Also, v1alpha1.Finding{Cause: Shutdown, Message: "the provider says that its machine is shut down (taint " + cloudproviderapi.TaintNodeShutdown + ")"})
	}
	if tainted && e.State != v1alpha1.StateDone {
		e.Message = "it keeps the taint " + cloudproviderapi.TaintExternalCloudProvider + ", so nothing runs on it: " + e.Message
	}
	return bounded(e)
}

func has(n *corev1.Node, taint string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
}

// held explains what the deletion brake does.
func held(e *v1alpha1.Explanation, n *corev1.Node, f Facts) {
	reason := f.Held.Reason
	if reason == "" {
		reason = "GracePeriod"
	}
	is(e, v1alpha1.StateStuck, DeletionHeld, "provider %s says that its machine does not exist, and the Node stays: %s: %s", e.Provider, reason, orNone(f.Held.Message))
	since(e, f.Held.Since)
	switch reason {
	case "GracePeriod", "Unconfirmed":
		e.State = v1alpha1.StateProgressing
		e.WaitsFor = "the grace period, then a second answer of a fresh instance"
	case "NoPermit", "NoRecord":
		e.WaitsFor = "a permit of the deletion brake"
	case "KubeletAlive", "KubeletUnknown":
		e.WaitsFor = "its kubelet to fall silent"
	}
	if n.Spec.ProviderID == "" || reason == "NotYetKnown" { // the provider never knew it
		next(e, "kubectl get node "+n.Name+" -o yaml", "add the machine to the provider's inventory")
	}
	switch reason {
	case "BadAnnotation", "Never":
		next(e, fmt.Sprintf("kubectl annotate --overwrite node %s wasm-ccm.dev/node-deletion-", n.Name), "correct or remove the annotation wasm-ccm.dev/node-deletion")
	case "KubeletAlive", "KubeletUnknown":
		next(e, "kubectl get lease -n kube-node-lease "+n.Name, "shut the machine down, if it should go; else correct what the provider knows of it")
	}
	next(e, fmt.Sprintf("kubectl annotate --overwrite namespace %s wasm-ccm.dev/deletion-brake-lifted-until=$(date -u -d +1hour +%%Y-%%m-%%dT%%H:%%M:%%SZ)", f.Namespace),
		"if the machines are really gone, lift the brake for an hour; or delete this one: kubectl delete node %s", n.Name)
}

// Route says why the pod network of a Node has its route, or has none.
func Route(n *corev1.Node, f Facts) v1alpha1.Explanation {
	e := begin(v1alpha1.KindRoute, "", n.Name, f)
	switch {
	case f.Provider == nil:
		is(&e, v1alpha1.StateIgnored, NoProvider, "its Node is no provider's: %s", orNone(f.Advice))
		next(&e, "ccmctl why node "+n.Name, "see why")
	case idle(&e, f, routeLoop):
	case n.Spec.PodCIDR == "" && len(n.Spec.PodCIDRs) == 0:
		is(&e, v1alpha1.StateStuck, NoPodCIDR, "its Node has no pod CIDR (spec.podCIDRs), so there is nothing to make a route for")
		next(&e, "kubectl -n kube-system get pods -l component=kube-controller-manager -o jsonpath='{..command}'", "kube-controller-manager gives pod CIDRs, with --allocate-node-cidrs=true and --cluster-cidr")
		e.WaitsFor = "the pod CIDR"
	case asked(&e, f), heard(&e, f):
	case reachable(n):
		is(&e, v1alpha1.StateDone, "", "provider %s has the route for %v (NetworkUnavailable is False)", e.Provider, n.Spec.PodCIDRs)
	default:
		is(&e, v1alpha1.StateProgressing, NotAskedYet, "the route controller has not made it yet")
		e.WaitsFor = "its next round (--route-reconciliation-period, 10 s)"
	}
	return bounded(e)
}

// reachable is what the route controller says of a Node.
func reachable(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
	})
}
