package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// minServer is the oldest API server with the APIs that the manager needs to
// start: ServiceCIDR objects are stable since then.
const minServer = "1.33.0"

// versions asks the API server for its version, and the manager for its status.
// It fails if the cluster does not answer.
func (c *checker) versions(ctx context.Context) error {
	if c.NoCluster != nil {
		return c.NoCluster
	}
	server, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	c.section("Versions", "kube-apiserver "+server.GitVersion, "it has what the manager reads", func() {
		parsed, err := version.ParseGeneric(server.GitVersion)
		if err == nil && parsed.LessThan(version.MustParseGeneric(minServer)) {
			c.tell(report.APIServerOld, "kube-apiserver "+server.GitVersion, "it is older than "+minServer)
		}
	})
	if c.Status == nil {
		return nil
	}
	answer, err := c.Status(ctx)
	c.status, c.unreachable = answer, err
	return nil
}

// manager reports the manager's own status.
func (c *checker) manager(ctx context.Context) {
	if c.status == nil {
		if apierrors.IsForbidden(c.unreachable) {
			c.unknown("MayNotRead", "manager", "not checked: whether providers serve, and reach their clouds: "+c.unreachable.Error())
		} else if c.unreachable != nil && c.seen.workload != nil && !c.noneRuns() {
			c.tell(report.ManagerSilent, "namespace "+c.Namespace, c.unreachable.Error())
		} else {
			c.unknown("Hosts", "cluster", "not checked: whether a manager reaches the granted hosts is known to a manager that runs")
		}
		return
	}
	if released(c.Version) != released(c.status.Manager.Version) {
		c.tell(report.VersionsDiffer, "manager "+c.status.Manager.Host, fmt.Sprintf("it is %s, and ccmctl is %s", c.status.Manager.Version, c.Version))
	}
	if !c.status.Manager.Leads {
		c.unknown("Objects", "manager "+c.status.Manager.Host, "not checked: which Nodes and Services are stuck, and whether the deletion brake holds: this manager stands by, and only the one that leads knows")
	}
	c.reach(ctx)
	for i := range c.status.Providers {
		p := &c.status.Providers[i]
		before := len(c.findings)
		if c.provider(p); len(c.findings) == before && len(p.Stuck) == 0 && len(p.Faults()) == 0 { // each may be told already
			c.add(OK, "Provider", "provider "+p.Name, well(p), "")
		}
		c.hosts(p)
	}
	c.stuck(c.status.Nobodys)
}

// released is a version without the commit of a development build.
func released(version string) string {
	release, _, _ := strings.Cut(version, "+")
	return release
}

// well is what is good of a provider of which nothing is wrong. Its objects are counted by
// the manager that leads, once it has read them.
func well(p *status.Provider) string {
	said := "it serves what is offered"
	if !p.ServesOffered() {
		said = "it serves; the rollout of what is offered is in phase " + p.Phase
	}
	if p.Services != nil && p.Nodes != nil {
		said += fmt.Sprintf("; none of its %d Services and %d Nodes is stuck", p.Services.Total, p.Nodes.Total)
	}
	return said
}

func (c *checker) provider(p *status.Provider) {
	where := "provider " + p.Name
	said := p.Phase + " " + p.Reason + ": " + p.Message
	switch {
	case p.Serving == nil && p.Phase == "":
		c.unknown("Provider", where, "not checked: the manager has just started, and says nothing of it yet")
	case p.Serving == nil:
		c.tell(report.NothingServes, where, said)
	case p.Refused():
		c.tell(report.OfferRefused, where, said)
	}
	if p.Paused {
		c.tell(report.Paused, where, "")
	}
	if p.Brake != nil && p.Brake.Engaged {
		c.tell(report.DeletionBrakeEngaged, where, fmt.Sprintf("%d of %d", p.Brake.Gone, p.Brake.Nodes))
	}
	for _, fault := range p.Faults() {
		cause := report.OfCondition(fault.Type, fault.Reason).Reason
		if cause == report.HostConfigurationRejected && c.invalid(fault.Message) {
			continue
		}
		c.tell(cause, where, fault.Type+" is False ("+fault.Reason+"): "+fault.Message)
	}
	c.stuck(p.Stuck)
}

// stuck tells of each object; a cause that holds back all of a provider is told once, of its
// Services, Nodes or routes.
func (c *checker) stuck(all []status.Explanation) {
	for _, e := range all {
		if report.Find(e.Cause).Whole {
			provider := "provider " + e.Provider
			if where := provider + ", " + e.Object.Kind + "s"; !c.told(e.Cause, provider) && !c.told(e.Cause, where) {
				c.add(Error, e.Cause, where, e.Message, report.ForManager(c.Namespace, "ccmctl why "+provider))
			}
			continue
		}
		kind, namespace, flag := strings.ToLower(e.Object.Kind)+" ", "", ""
		if e.Object.Namespace != "" {
			namespace, flag = e.Object.Namespace+"/", " -n "+e.Object.Namespace
		}
		if where := kind + namespace + e.Object.Name; !c.told(e.Cause, where) {
			c.add(Error, e.Cause, where, e.Message, report.ForManager(c.Namespace, "ccmctl why "+kind+e.Object.Name+flag))
		}
	}
}

// invalid reports whether a mistake of the configuration, as the manager tells it of each
// provider, is told already.
func (c *checker) invalid(message string) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool {
		_, evidence, _ := strings.Cut(f.What, ": ")
		return f.Reason == report.HostConfigurationInvalid && strings.Contains(message, evidence) ||
			f.Reason == report.HostConfigurationRejected && strings.HasSuffix(evidence, message)
	})
}

func (c *checker) told(reason, where string) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Reason == reason && f.Where == where })
}

// cloudProviders checks the kind CloudProvider and its objects, if the
// configuration reads them.
func (c *checker) cloudProviders(ctx context.Context) {
	if c.plan.decoded == nil || !c.plan.decoded.CloudProviders.Enabled {
		return
	}
	resource := v1alpha1.CloudProviderResource()
	crd := resource.Resource + "." + resource.Group
	c.section("CloudProviders", "crd "+crd, "it is there, and each object is valid", func() {
		list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			if !c.plan.has("CustomResourceDefinition", "", crd) {
				c.tell(report.CRDMissing, "crd "+crd, "in version "+resource.Version)
			}
			return
		}
		if !c.readable("cloudproviders", err) {
			return
		}
		if !c.plan.has("CustomResourceDefinition", "", crd) { // helm upgrade installs the planned one
			c.definition(ctx, crd)
		}
		for i := range list.Items {
			c.cloudProvider(&list.Items[i])
		}
	})
}

func (c *checker) cloudProvider(object *unstructured.Unstructured) {
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		spec = nil
	}
	p, err := v1alpha1.DecodeSpec(object.GetName(), spec)
	if err == nil {
		err = validation.ValidateAmong(p, c.plan.providers).ToAggregate()
	}
	if err != nil {
		c.tell(report.CloudProviderInvalid, "cloudprovider "+object.GetName(), err.Error())
		return
	}
	c.plan.providers = append(c.plan.providers[:len(c.plan.providers):len(c.plan.providers)], *p)
}
