package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Why implements statusapi.Source.
func (s *statusSource) Why(ctx context.Context, o v1alpha1.Object) (*v1alpha1.Explanation, error) {
	if o.Kind == v1alpha1.KindProvider {
		return s.whyProvider(o.Name)
	}
	if !s.manager.leadership.Leads() {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("this manager does not lead, and knows nothing of objects; %s leads", orNobody(s.holder(ctx))))
	}
	if !s.synced() {
		return nil, apierrors.NewServiceUnavailable("this manager has just begun to lead, and has not read the cluster's objects yet: ask again")
	}
	var e v1alpha1.Explanation
	if o.Kind == v1alpha1.KindService {
		service, err := s.services.Services(o.Namespace).Get(o.Name)
		if err != nil {
			return nil, err
		}
		e = s.service(service, s.statuses())
		return &e, nil
	}
	if o.Kind == v1alpha1.KindVolume {
		if !s.volumesSynced() {
			return nil, apierrors.NewServiceUnavailable("this manager has not read the PersistentVolumes yet: ask again")
		}
		volume, err := s.volumes.Get(o.Name)
		if err != nil {
			return nil, err
		}
		e = s.volume(volume, s.statuses())
		return &e, nil
	}
	node, err := s.nodes.Get(o.Name)
	if err != nil {
		return nil, err
	}
	e = s.node(node, s.statuses())
	if o.Kind == v1alpha1.KindRoute {
		all := s.statuses()
		var old []string // an old route may be on its way out
		if p := s.asked(node, all); p != nil {
			old = p.one.invoker.Routes(node.Name)
		}
		e = s.route(node, all, old...)
	}
	return &e, nil
}

func orNobody(holder string) string {
	if holder == "" {
		return "nobody"
	}
	return holder
}

func (s *statusSource) whyProvider(name string) (*v1alpha1.Explanation, error) {
	all := s.statuses()
	at := slices.IndexFunc(all, func(p view) bool { return p.status.Name == name })
	if at < 0 {
		return nil, s.noProvider(name)
	}
	f := s.facts(&all[at])
	e := explain.Provider(f)
	return &e, nil
}

// noProvider is the error for an unknown provider.
func (s *statusSource) noProvider(name string) error {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: "providers"}, name)
	err.ErrStatus.Message += fmt.Sprintf(": this manager has %v", s.manager.router.Providers())
	return err
}

// view is a provider at one moment.
type view struct {
	one    *managed
	status v1alpha1.Provider
	ready  int // Nodes for its load balancers
}

// statuses of all providers.
func (s *statusSource) statuses() (all []view) {
	for _, one := range s.manager.all() {
		all = append(all, view{one, s.provider(one), s.readyNodes(one.name)})
	}
	return all
}

// facts about a provider, which may be nil.
func (s *statusSource) facts(p *view) explain.Facts {
	f := explain.Facts{Now: time.Now(), Namespace: s.manager.options.StoreNamespace, Providers: s.manager.router.Providers()}
	if p != nil {
		f.Provider = &p.status
	}
	return f
}

func viewOf(all []view, name string) *view {
	if at := slices.IndexFunc(all, func(p view) bool { return p.status.Name == name }); at >= 0 {
		return &all[at]
	}
	return nil
}

func (s *statusSource) service(o *corev1.Service, all []view) v1alpha1.Explanation {
	router := s.manager.router
	p := viewOf(all, router.ServiceProvider(o))
	f := s.facts(p)
	f.Advice, f.OtherChoice = router.AdviseService(o), router.OtherChoice(o)
	if p != nil {
		key := o.Namespace + "/" + o.Name
		p.one.recall(&f, abi.GroupLoadBalancers, key)
		f.Asked = p.one.history.last(abi.GroupLoadBalancers, key, o.UID)
		f.Heard = p.one.history.heardOf(v1alpha1.KindService, key, o.UID)
		f.ReadyNodes = p.ready
	}
	return explain.Service(o, f)
}

func (s *statusSource) node(o *corev1.Node, all []view) v1alpha1.Explanation {
	p := s.asked(o, all)
	f := s.facts(p)
	f.Advice = s.manager.router.AdviseNode(o)
	if p != nil {
		p.one.recall(&f, abi.GroupInstances, o.Name)
		f.Asked = p.one.history.last(abi.GroupInstances, o.Name, o.UID)
		f.Heard = p.one.history.heardOf(v1alpha1.KindNode, o.Name, o.UID)
		if held := p.one.brake.Look(o); held != nil && !p.one.history.old(held.Said) {
			f.Held = heldOf(held)
		}
	}
	return explain.Node(o, f)
}

func heldOf(h *brake.Held) *explain.Held {
	return &explain.Held{Reason: string(h.Reason), Message: h.Message, Since: h.Since, Until: h.Until, Lifts: h.Reason.Lifts()}
}

// route explains the routes of a Node to its pod CIDRs, and to these.
func (s *statusSource) route(o *corev1.Node, all []view, old ...string) v1alpha1.Explanation {
	p := s.asked(o, all)
	f := s.facts(p)
	f.Advice = s.manager.router.AdviseNode(o)
	if p != nil {
		for _, cidr := range append(old, o.Spec.PodCIDRs...) {
			p.one.recall(&f, abi.GroupRoutes, cidr+" of "+o.Name)
		}
		f.Asked = p.one.history.last(abi.GroupRoutes, o.Name, "")
		f.Heard = p.one.history.heardOf(v1alpha1.KindRoute, o.Name, "")
		if f.Heard == nil || f.Heard.Cause == "" { // without the list no route is created
			if list := p.one.history.heardOf(v1alpha1.KindRoute, "", ""); list != nil && list.Cause != "" {
				f.Heard = list
			}
		}
	}
	return explain.Route(o, f)
}

func (s *statusSource) volume(o *corev1.PersistentVolume, all []view) v1alpha1.Explanation {
	p := s.volumeProvider(o, all)
	f := s.facts(p)
	if p != nil {
		p.one.recall(&f, abi.GroupVolumes, o.Name)
		f.Asked = p.one.history.last(abi.GroupVolumes, o.Name, o.UID)
		f.Heard = p.one.history.heardOf(v1alpha1.KindVolume, o.Name, o.UID)
	}
	return explain.Volume(o, f)
}

// volumeProvider is the provider of a PersistentVolume, or nil.
func (s *statusSource) volumeProvider(o *corev1.PersistentVolume, all []view) *view {
	at := slices.IndexFunc(all, func(p view) bool {
		own := s.manager.router.PersistentVolumes(p.status.Name)
		return own == nil || own(o)
	})
	if at < 0 {
		return nil
	}
	return &all[at]
}

// asked is the provider of a Node. If several are asked about it, it is one
// with another answer than that it does not know the Node, if there is one.
func (s *statusSource) asked(o *corev1.Node, all []view) (found *view) {
	for _, name := range s.manager.router.NodeProviders(o) {
		p := viewOf(all, name)
		if p == nil {
			continue
		}
		heard := p.one.history.heardOf(v1alpha1.KindNode, o.Name, o.UID)
		if found == nil || heard != nil && heard.Cause != report.MachineUnknown {
			found = p
		}
	}
	return found
}

// readyNodes counts the Nodes of a provider that a load balancer can have, by
// the rules of upstream's service controller.
func (s *statusSource) readyNodes(provider string) (n int) {
	own := s.manager.router.Nodes(provider)
	for _, node := range s.list() {
		_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
		if (own == nil || own(node)) && !excluded && isReady(node) {
			n++
		}
	}
	return n
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// recall adds the invoker's knowledge of an object.
func (m *managed) recall(f *explain.Facts, group abi.Group, name string) {
	running, failing := m.invoker.Look(group, name)
	if running != nil {
		f.Running = &v1alpha1.Op{Name: running.Op.String(), At: metav1.NewTime(running.Started), Took: metav1.Duration{Duration: time.Since(running.Started)}, Running: true}
		f.RunsUntil = running.Started.Add(running.Timeout)
	}
	if failing != nil {
		f.Failing = &explain.Failing{Op: failing.Op.String(), Failures: failing.Failures, Last: m.allowed.scrub(failing.Last.Error()), At: failing.At, Until: failing.Until}
	}
}
