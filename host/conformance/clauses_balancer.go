package conformance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
)

func balancerClauses() []clause {
	return needing(abi.GroupLoadBalancers.Required(), []clause{
		{id: "lb-name", text: "lb_name is not empty, the same each time, another for another Service, and makes no request", check: checkName},
		{id: "lb-absent", text: "what was never made does not exist, and deleting it is ok and changes nothing", check: checkAbsent},
		{id: "lb-ensure", text: "lb_ensure ends with an address; again it says the same and writes nothing; lb_get says the same", check: checkEnsure},
		{id: "lb-nodes", text: "lb_update follows nodes that come and go, down to none; again it writes nothing", check: checkNodes},
		{id: "lb-joining", text: "a node that has just joined, without provider ID and addresses, fails neither lb_update nor lb_ensure; again they write nothing", check: checkJoining},
		{id: "lb-order", text: "lb_ensure and lb_update with the same nodes in another order write nothing", check: checkOrder},
		{id: "lb-ports", text: "lb_ensure follows ports that are added, changed and removed, with the same address; again it writes nothing", check: checkPorts},
		{id: "lb-delete", text: "lb_delete leaves nothing, lb_get says so, and again is ok", check: checkDelete},
	})
}

// backends are the nodes of the cases as the API server would have them: with
// the guest's provider IDs and addresses, if it answers any.
func (k *kit) backends(ctx context.Context) []*corev1.Node {
	nodes := k.nodes()
	if !k.slot.Supports(abi.OpInstanceMetadata) {
		return nodes
	}
	for _, n := range nodes {
		m, o := k.metadata(ctx, nil, n)
		converted, err := convert.InstanceMetadata(m, k.policy)
		if o.err != nil || err != nil {
			continue // the clauses about instances report it
		}
		n.Spec.ProviderID, n.Status.Addresses = converted.ProviderID, converted.NodeAddresses
	}
	return nodes
}

// service is the first Service of the cases, for the clauses about crashes and
// faults.
func (k *kit) service() *corev1.Service { return k.Cases.Services[0].DeepCopy() }

func checkName(ctx context.Context, c *check) {
	seen := map[string]string{}
	services := append([]corev1.Service{*c.service()}, c.Cases.Services...)
	services[0].Name, services[0].UID = "conformance-other", uidOf("other")
	for i := range services {
		s := &services[i]
		name, o := c.lbName(ctx, s)
		if o.err != nil || name == "" || len(o.trace) > 0 {
			c.failf(o, "Service %s: %s, %q, %d requests; want a name without any", s.Name, o, name, len(o.trace))
		}
		if again, o := c.lbName(ctx, s); again != name {
			c.failf(o, "Service %s: %q, and before %q", s.Name, again, name)
		}
		if other, taken := seen[name]; taken {
			c.failf(o, "Service %s has the name %q of %s", s.Name, name, other)
		}
		seen[name] = s.Name
	}
}

func checkAbsent(ctx context.Context, c *check) {
	s := c.service()
	s.Name, s.UID = "conformance-never-made", uidOf("never made")
	before, err := c.witness(ctx)
	if err != nil {
		c.failf(outcome{}, "%v", err)
		return
	}
	for range 2 {
		if got, o := c.lbGet(ctx, nil, s); o.err != nil || got.Existence != abi.Existence_EXISTENCE_DOES_NOT_EXIST {
			c.failf(o, "%s, %s, want DOES_NOT_EXIST", o, got.Existence)
		}
		o := c.deleted(ctx, nil, s)
		if o.err != nil {
			c.failf(o, "%s", o)
		}
		c.checkWitness(ctx, before, o, "after lb_delete of what was never made")
	}
}

// fresh creates the load balancer of a Service from nothing, and returns the
// witness's lines from before. The caller ends with remove.
func (c *check) fresh(ctx context.Context, s *corev1.Service, nodes []*corev1.Node) (status *abi.LoadBalancerStatus, before []string, ok bool) {
	if o := c.cleared(ctx, s); o.err != nil {
		c.failf(o, "Service %s: before anything: %s", s.Name, o)
		return nil, nil, false
	}
	before, err := c.witness(ctx)
	if err != nil {
		c.failf(outcome{}, "%v", err)
		return nil, nil, false
	}
	status, o := c.ensured(ctx, nil, s, nodes)
	if o.err != nil {
		c.failf(o, "Service %s: %s", s.Name, o)
		c.remove(ctx, s)
		return nil, nil, false
	}
	return status, before, true
}

// onService is a check of the first Service of the cases, whose load balancer is fresh.
func onService(run func(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, before []string)) func(context.Context, *check) {
	return func(ctx context.Context, c *check) {
		s, nodes := c.service(), c.backends(ctx)
		if _, before, ok := c.fresh(ctx, s, nodes); ok {
			defer c.remove(ctx, s)
			run(ctx, c, s, nodes, before)
		}
	}
}

// remove cleans up; its success is checked by another clause.
func (c *check) remove(ctx context.Context, s *corev1.Service) {
	c.cleared(context.WithoutCancel(ctx), s)
}

// checkQuiet fails if an op writes although nothing has changed.
func (c *check) checkQuiet(o outcome, what string) {
	switch writes := o.writes(); {
	case o.err != nil:
		c.failf(o, "%s: %s", what, o)
	case len(writes) > 0:
		c.failf(o, "%s: %d writes, want none; the first is %s", what, len(writes), writes[0])
	}
}

func (c *check) eachService(ctx context.Context, check func(s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, before []string)) {
	nodes := c.backends(ctx)
	for i := range c.Cases.Services {
		s := c.Cases.Services[i].DeepCopy()
		status, before, ok := c.fresh(ctx, s, nodes)
		if !ok {
			continue
		}
		s.Status.LoadBalancer = c.known(status)
		check(s, nodes, status, before)
		c.remove(ctx, s)
	}
	if c.note == "" {
		c.notef("%d Services, %d nodes", len(c.Cases.Services), len(nodes))
	}
}

// known is the status in the service controller's form.
func (c *check) known(s *abi.LoadBalancerStatus) corev1.LoadBalancerStatus {
	converted, err := convert.CloudLoadBalancerStatus(s, c.policy)
	if err != nil {
		return corev1.LoadBalancerStatus{}
	}
	return *converted
}

func checkEnsure(ctx context.Context, c *check) {
	c.eachService(ctx, func(s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, _ []string) {
		for range 2 {
			again, o := c.ensured(ctx, nil, s, nodes)
			c.checkQuiet(o, "Service "+s.Name+": lb_ensure again")
			if a, b := inJSON(status), inJSON(again); a != b {
				c.failf(o, "Service %s: the status is %s, and before %s", s.Name, b, a)
			}
			c.restart(ctx) // the next op has an empty cache
		}
		got, o := c.lbGet(ctx, nil, s)
		if o.err != nil || got.Existence != abi.Existence_EXISTENCE_EXISTS || inJSON(got.Status) != inJSON(status) {
			c.failf(o, "Service %s: %s, %s %s, want EXISTS %s", s.Name, o, got.Existence, inJSON(got.Status), inJSON(status))
		}
		if writes := o.writes(); len(writes) > 0 {
			c.failf(o, "Service %s: lb_get writes: %s", s.Name, writes[0])
		}
	})
}

func checkNodes(ctx context.Context, c *check) {
	c.eachService(ctx, func(s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, _ []string) {
		begin, _ := c.state(ctx, s)
		last, count := begin.lines, len(nodes)
		for _, some := range [][]*corev1.Node{nodes[:len(nodes)-1], nodes[:1], nodes, nil, nodes} {
			what := fmt.Sprintf("Service %s, %d of %d nodes: ", s.Name, len(some), len(nodes))
			o := c.updated(ctx, nil, s, some)
			if o.err != nil {
				c.failf(o, "%s%s", what, o)
				continue
			}
			last = c.checkChanged(ctx, last, len(some) != count, o, what)
			count = len(some)
			c.restart(ctx)
			c.checkQuiet(c.updated(ctx, nil, s, some), what+"lb_update again")
			again, o := c.ensured(ctx, nil, s, some)
			c.checkQuiet(o, what+"lb_ensure after lb_update")
			if o.err == nil && inJSON(again) != inJSON(status) {
				c.failf(o, "%sthe status is %s, and before %s", what, inJSON(again), inJSON(status))
			}
		}
		c.checkState(ctx, s, begin, outcome{}, "Service "+s.Name+", with the nodes of the beginning")
	})
}

// checkJoining: between its registration and its initialisation a node has only
// a name, and upstream lists it as a backend all the same. An error would delay
// updates of the other backends until then.
func checkJoining(ctx context.Context, c *check) {
	c.eachService(ctx, func(s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, _ []string) {
		what := "Service " + s.Name + ", one more node that has no addresses yet: "
		joining := &corev1.Node{}
		joining.Name, joining.UID = "conformance-joining", uidOf("joining")
		more := append(slices.Clone(nodes), joining)
		if o := c.updated(ctx, nil, s, more); o.err != nil {
			c.failf(o, "%s%s", what, o)
			return
		}
		c.restart(ctx)
		c.checkQuiet(c.updated(ctx, nil, s, more), what+"lb_update again")
		again, o := c.ensured(ctx, nil, s, more)
		c.checkQuiet(o, what+"lb_ensure after lb_update")
		if o.err == nil && inJSON(again) != inJSON(status) {
			c.failf(o, "%sthe status is %s, and before %s", what, inJSON(again), inJSON(status))
		}
	})
}

// checkOrder: the order of the nodes is irrelevant. The manager sorts them by
// name, but a load balancer's list may come from other writers.
func checkOrder(ctx context.Context, c *check) {
	c.eachService(ctx, func(s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, _ []string) {
		backwards := slices.Clone(nodes)
		slices.Reverse(backwards)
		orders := map[string][]*corev1.Node{"backwards": backwards, "the last first": append([]*corev1.Node{nodes[len(nodes)-1]}, nodes[:len(nodes)-1]...)}
		for _, order := range slices.Sorted(maps.Keys(orders)) {
			what := "Service " + s.Name + ", the nodes " + order + ": "
			c.checkQuiet(c.updated(ctx, nil, s, orders[order]), what+"lb_update")
			again, o := c.ensured(ctx, nil, s, orders[order])
			c.checkQuiet(o, what+"lb_ensure")
			if o.err == nil && inJSON(again) != inJSON(status) {
				c.failf(o, "%sthe status is %s, and before %s", what, inJSON(again), inJSON(status))
			}
			c.restart(ctx)
		}
	})
}

// checkChanged fails if the witness does not see a change, and returns the
// witness's lines. Without a witness it checks nothing.
func (c *check) checkChanged(ctx context.Context, last []string, changes bool, o outcome, what string) []string {
	lines := last
	for end := time.Now().Add(c.Settle); ; {
		now, err := c.witness(ctx)
		if err != nil {
			c.failf(o, "%s%v", what, err)
			return last
		}
		lines = now
		if c.Inspect == nil || !changes || len(differ(last, lines)) > 0 {
			return lines
		}
		if time.Now().After(end) || !sleep(ctx, c.Settle/10) {
			break
		}
	}
	c.failf(o, "%sthe cloud keeps the same as before it", what)
	return lines
}

// changes are the ports of a Service after each of several changes, with a name each.
func changes(s *corev1.Service) (all []*corev1.Service, names []string) {
	next := s
	change := func(name string, f func(ports []corev1.ServicePort) []corev1.ServicePort) {
		next = next.DeepCopy()
		next.Spec.Ports = f(next.Spec.Ports)
		all, names = append(all, next), append(names, name)
	}
	change("a port added", func(ports []corev1.ServicePort) []corev1.ServicePort {
		added := corev1.ServicePort{Name: "added", Port: 18080}
		fillPort(&added, 31900)
		if len(ports) == 1 && ports[0].Name == "" {
			ports[0].Name = "first" // required by the API server
		}
		return append(ports, added)
	})
	change("a port changed", func(ports []corev1.ServicePort) []corev1.ServicePort {
		ports[len(ports)-1].Port = 18081
		return ports
	})
	change("a node port changed", func(ports []corev1.ServicePort) []corev1.ServicePort {
		ports[len(ports)-1].NodePort++
		return ports
	})
	change("the first port removed", func(ports []corev1.ServicePort) []corev1.ServicePort { return ports[1:] })
	change("as at the beginning", func([]corev1.ServicePort) []corev1.ServicePort { return s.DeepCopy().Spec.Ports })
	return all, names
}

func checkPorts(ctx context.Context, c *check) {
	c.eachService(ctx, func(s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, _ []string) {
		begin, ok := c.state(ctx, s)
		last := begin.lines
		variants, names := changes(s)
		for i, variant := range variants {
			what := "Service " + s.Name + ", " + names[i] + ": "
			again, o := c.ensured(ctx, nil, variant, nodes)
			if o.err != nil {
				c.failf(o, "%s%s", what, o)
				continue
			}
			last = c.checkChanged(ctx, last, true, o, what)
			if a, b := ingressOf(status), ingressOf(again); a != b {
				c.failf(o, "%sthe address is %s, and before %s", what, b, a)
			}
			c.restart(ctx)
			_, o = c.ensured(ctx, nil, variant, nodes)
			c.checkQuiet(o, what+"lb_ensure again")
		}
		if ok {
			c.checkState(ctx, s, begin, outcome{}, "Service "+s.Name+", with the ports of the beginning")
		}
	})
}

// ingressOf lists the addresses of a status.
func ingressOf(s *abi.LoadBalancerStatus) string {
	all := ""
	for _, in := range cmp.Or(s, &abi.LoadBalancerStatus{}).Ingress {
		all += " " + in.Ip + in.Hostname
	}
	return all
}

func checkDelete(ctx context.Context, c *check) {
	c.eachService(ctx, func(s *corev1.Service, _ []*corev1.Node, _ *abi.LoadBalancerStatus, before []string) {
		s = s.DeepCopy()
		s.Spec.LoadBalancerClass = nil // an API server drops it with the type
		o := c.undone(ctx, nil, s)
		if o.err != nil {
			c.failf(o, "Service %s: %s", s.Name, o)
			return
		}
		c.checkGone(ctx, s, before, o, "Service "+s.Name+", after lb_delete")
		c.restart(ctx)
		if o := c.deleted(ctx, nil, s); o.err != nil {
			c.failf(o, "Service %s: lb_delete again: %s", s.Name, o)
		}
	})
}

func (c *check) checkGone(ctx context.Context, s *corev1.Service, before []string, o outcome, after string) {
	if got, get := c.lbGet(ctx, nil, s); get.err != nil || got.Existence != abi.Existence_EXISTENCE_DOES_NOT_EXIST {
		c.failf(get, "%s: %s, %s, want DOES_NOT_EXIST", after, get, got.Existence)
	}
	c.checkWitness(ctx, before, o, after)
}
