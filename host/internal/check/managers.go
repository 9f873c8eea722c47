package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// managers looks for other programs with cloud loops.
func (c *checker) managers(context.Context) {
	good, led := "nobody else runs the control loops of a cloud", c.elsewhere()
	meant := c.bare() && len(led) > 0 // another namespace's manager may be the one that is meant: notInstalled says so
	if meant {
		good, led = "no "+kubeManager+" runs the control loops of a cloud", nil
	}
	c.section("Managers", "cluster", good, func() {
		for i := range c.seen.pods {
			c.otherManager(&c.seen.pods[i], meant)
		}
		for i := range led {
			c.tell(report.TwoManagers, "lease "+led[i].Namespace+"/"+led[i].Name, fmt.Sprintf("%s leads by it, and the manager of namespace %s by another", *led[i].Spec.HolderIdentity, c.Namespace))
		}
	}, ofPods, ofLeases)
}

// elsewhere are the Leases by which managers of other namespaces lead.
func (c *checker) elsewhere() (led []coordinationv1.Lease) {
	for i := range c.seen.leases {
		if lease := &c.seen.leases[i]; lease.Namespace != c.Namespace && c.live(lease) {
			led = append(led, *lease)
		}
	}
	return led
}

// otherManager tells of cloud loops in a Pod. The cloud-controller-manager of another
// namespace is left out if it may be the one that is meant.
func (c *checker) otherManager(pod *corev1.Pod, meant bool) {
	for _, container := range pod.Spec.Containers {
		cloud, set := flag(container, "cloud-provider")
		switch {
		case runs(container, kubeManager):
			if set && cloud != "" && cloud != "external" {
				c.tell(report.InTreeCloudProvider, podName(pod), "--cloud-provider="+cloud)
			}
		case !meant && !c.ours(pod) && runs(container, managerName):
			c.tell(report.TwoManagers, podName(pod), "another cloud-controller-manager (container "+container.Name+")")
		}
	}
}

// kubeManager is the former home of the cloud loops.
const kubeManager = "kube-controller-manager"

// isManager reports whether a Pod may run the loops of a cloud.
func isManager(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return runs(container, kubeManager) || runs(container, managerName)
	})
}

// runs reports whether a container runs a program, by its name, image or command.
func runs(container corev1.Container, program string) bool {
	image, _, _ := strings.Cut(path.Base(container.Image), "@")
	image, _, _ = strings.Cut(image, ":")
	names := []string{container.Name, image}
	for _, words := range [][]string{container.Command, container.Args} {
		if len(words) > 0 {
			names = append(names, path.Base(words[0]))
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, program) })
}

// leader checks the holder of the manager's Lease.
func (c *checker) leader(context.Context) {
	if c.seen.workload == nil || c.seen.leases == nil {
		return
	}
	where := "lease " + c.own()
	c.section("Leader", where, "a manager leads", func() {
		i := slices.IndexFunc(c.seen.leases, func(l coordinationv1.Lease) bool { return l.Namespace == c.Namespace })
		if i < 0 || !c.live(&c.seen.leases[i]) {
			if c.noneRuns() {
				c.unknown("Leader", where, "no manager leads, as none runs")
				return
			}
			c.tell(report.NoLeader, where, "")
			return
		}
		c.holder(where, *c.seen.leases[i].Spec.HolderIdentity)
	}, ofPods)
}

// holder checks whether the leader is a Pod of this manager. A hostname may differ from the
// name of the Node, so only the managers' own answers show that none of them leads.
func (c *checker) holder(where, holder string) {
	own := c.ownPods()
	switch {
	case c.seen.pods == nil, slices.ContainsFunc(own, func(p corev1.Pod) bool { return holds(&p, holder) }):
	case len(own) > 0 && c.status != nil && c.status.Manager.Leads && c.status.Manager.Lease == c.own():
	case c.status != nil && c.status.Manager.Leads && c.status.Manager.Lease != c.own():
		c.tell(report.TwoManagers, where, fmt.Sprintf("%s leads by it, while manager %s leads %s", holder, c.status.Manager.Host, by(c.status.Manager.Lease)))
	case len(own) > 0 && (c.status == nil || c.unreachable != nil):
		c.unknown("Leader", where, "not checked: whether "+holder+", who holds it, is a Pod of this manager: each of them has to answer")
	default:
		c.tell(report.ForeignLeader, where, holder)
	}
}

func by(lease string) string {
	if lease == "" {
		return "without a Lease (--leader-elect=false)"
	}
	return "by lease " + lease
}

// holds says whether a Pod is a holder, HOST_UID. The host of a Pod on the host
// network is its node, by the short name or the long one.
func holds(pod *corev1.Pod, holder string) bool {
	host, _, _ := strings.Cut(holder, "_")
	short, _, _ := strings.Cut(host, ".")
	node, _, _ := strings.Cut(pod.Spec.NodeName, ".")
	return host == pod.Name || pod.Spec.HostNetwork && (host == pod.Spec.NodeName || short == node)
}
