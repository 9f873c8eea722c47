package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Node explains why a Node is initialised or not, and why it stays.
func Node(n *corev1.Node, f Facts) v1alpha1.Explanation {
	e := begin(v1alpha1.KindNode, "", n.Name, f)
	tainted := has(n, cloudproviderapi.TaintExternalCloudProvider)
	switch {
	case f.Provider == nil && f.Advice != "":
		is(&e, v1alpha1.StateStuck, report.NoProvider, "%s", f.Advice)
		since(&e, n.CreationTimestamp.Time)
		next(&e, fmt.Sprintf("kubectl label --overwrite node %s wasm-ccm.dev/provider=%s", n.Name, oneOf(f.Providers)), "for example")
	case f.Provider == nil:
		is(&e, v1alpha1.StateIgnored, report.NoProvider, "no provider of this manager has it (its provider ID is %q), so it is left alone", n.Spec.ProviderID)
	case f.Held != nil:
		held(&e, n, f)
	case !tainted && n.Spec.ProviderID == "":
		is(&e, v1alpha1.StateStuck, report.NotHandedOver, "it has neither a provider ID nor the taint %s: its kubelet registered without --cloud-provider=external, so no manager initialises it", cloudproviderapi.TaintExternalCloudProvider)
		since(&e, n.CreationTimestamp.Time)
		advise(&e, f)
	case idle(&e, f, nodeLoop), tainted && asked(&e, f), heard(&e, f):
	case tainted:
		is(&e, v1alpha1.StateProgressing, report.NotAskedYet, "the node controller has not reached it yet")
		since(&e, n.CreationTimestamp.Time)
		e.WaitsFor = "its turn"
	default:
		is(&e, v1alpha1.StateDone, "", "provider %s has initialised it as %s", e.Provider, n.Spec.ProviderID)
		if f.Heard != nil { // Asked may be older: a list of all instances is no op about this one
			e.Message += ", and told its addresses last at " + f.Heard.At.UTC().Format(time.RFC3339) + ", asked about it or about all instances"
		}
	}
	if has(n, cloudproviderapi.TaintNodeShutdown) {
		e.Also = append(e.Also, v1alpha1.Finding{Cause: report.Shutdown, Message: "the provider says that its machine is shut down (taint " + cloudproviderapi.TaintNodeShutdown + ")"})
	}
	if tainted && e.State != v1alpha1.StateDone {
		e.Message = "it keeps the taint " + cloudproviderapi.TaintExternalCloudProvider + ", so nothing runs on it: " + e.Message
	}
	return bounded(e)
}

func has(n *corev1.Node, taint string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
}

// held explains the effect of the deletion brake.
func held(e *v1alpha1.Explanation, n *corev1.Node, f Facts) {
	h := f.Held
	reason := h.Reason
	if reason == "" {
		reason = "GracePeriod"
	}
	is(e, v1alpha1.StateStuck, report.DeletionHeld, "provider %s says that its machine does not exist, and the Node stays: %s: %s", e.Provider, reason, orNone(h.Message))
	since(e, h.Since)
	switch reason {
	case "GracePeriod", "Unconfirmed":
		if !has(n, cloudproviderapi.TaintExternalCloudProvider) { // else it waits for its machine, too
			e.State = v1alpha1.StateProgressing
		}
		e.WaitsFor = "the grace period" + until(h.Until) + ", then a second answer of a fresh instance"
	case "NoPermit", "NoRecord":
		e.WaitsFor = "a permit of the deletion brake" + until(h.Until)
	case "KubeletAlive", "KubeletUnknown":
		e.WaitsFor = "its kubelet to fall silent"
	}
	if n.Spec.ProviderID == "" || reason == "NotYetKnown" { // the provider never knew it
		next(e, "kubectl get node "+n.Name+" -o yaml", "add the machine to the provider's inventory")
	}
	switch {
	case h.Lifts:
		unbrake(e, f, n.Name)
	case reason == "Never", reason == "BadAnnotation":
		next(e, fmt.Sprintf("kubectl annotate --overwrite node %s wasm-ccm.dev/node-deletion- wasm-ccm.dev/node-deletion-grace-period-", n.Name), "correct the annotation that the message names, or remove it")
	case reason == "KubeletAlive", reason == "KubeletUnknown":
		next(e, "kubectl get lease -n kube-node-lease "+n.Name, "shut the machine down, if it should go; otherwise correct the provider's data")
	default:
		advise(e, f)
	}
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", until about " + t.UTC().Format(time.RFC3339)
}

// unbrake suggests to release one Node, and then all: the others lose their protection.
func unbrake(e *v1alpha1.Explanation, f Facts, node string) {
	next(e, fmt.Sprintf("kubectl annotate --overwrite node %s wasm-ccm.dev/node-deletion=Unbraked", node), "if the machine of one Node is really gone, let it go alone")
	next(e, Lift(f.Namespace), "only if the machines of all these Nodes are gone: lift the brake for an hour, for all Nodes")
}

// Lift is the command that lifts the deletion brake for an hour; the namespace is that
// of the manager's ConfigMaps.
func Lift(namespace string) string {
	return fmt.Sprintf("kubectl annotate --overwrite namespace %s wasm-ccm.dev/deletion-brake-lifted-until=$(date -u -d +1hour +%%Y-%%m-%%dT%%H:%%M:%%SZ)", namespace)
}

// Route explains why the pod network of a Node has a route or not.
func Route(n *corev1.Node, f Facts) v1alpha1.Explanation {
	e := begin(v1alpha1.KindRoute, "", n.Name, f)
	switch {
	case f.Provider == nil:
		is(&e, v1alpha1.StateIgnored, report.NoProvider, "its Node has no provider: %s", orNone(f.Advice))
		next(&e, report.ForManager(f.Namespace, "ccmctl why node "+n.Name), "see why")
	case slices.ContainsFunc(f.Provider.Loops, func(l v1alpha1.Loop) bool { return l.Name == routeLoop && l.Off }):
		is(&e, v1alpha1.StateIgnored, report.RoutesOff, "the manager makes no routes for provider %s: --configure-cloud-routes is false, or its module has none", e.Provider)
		advise(&e, f)
	case idle(&e, f, routeLoop):
	case n.Spec.PodCIDR == "" && len(n.Spec.PodCIDRs) == 0:
		is(&e, v1alpha1.StateStuck, report.NoPodCIDR, "its Node has no pod CIDR (spec.podCIDRs), so there is nothing to make a route for")
		advise(&e, f)
		e.WaitsFor = "the pod CIDR"
	case asked(&e, f), heard(&e, f):
	case reachable(n):
		is(&e, v1alpha1.StateDone, "", "provider %s has the route for %v (NetworkUnavailable is False)", e.Provider, n.Spec.PodCIDRs)
	default:
		is(&e, v1alpha1.StateProgressing, report.NotAskedYet, "the route controller has not made it yet")
		e.WaitsFor = "its next round (--route-reconciliation-period, 10 s)"
	}
	return bounded(e)
}

// reachable is the route controller's condition of a Node.
func reachable(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
	})
}
