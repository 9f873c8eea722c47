package manager

import (
	"context"

	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/cloudproviders"
)

// begin applies the manager's first configuration: the file, and with
// cloudProviders.enabled the CloudProviders of the cluster, which it then watches.
func (m *manager) begin(c *ccmconfig.CompletedConfig, host *v1alpha1.HostConfiguration) error {
	// Invariant R14 (host/SECURITY.md): nobody looks at objects unless the file says so.
	if !host.CloudProviders.Enabled {
		return m.providers.apply(m.work, host)
	}
	client, err := m.outside.dynamic(c.Kubeconfig)
	if err != nil {
		return err
	}
	objects := cloudproviders.New(cloudproviders.Options{Client: client, Apply: m.providers.apply, Gone: m.providers.gone, Events: m.providers.shared.events})
	m.providers.objects = objects
	ctx := klog.NewContext(m.work, klog.Background().WithName("cloudproviders"))
	m.working.Go("the watch of CloudProviders", func() { objects.Watch(ctx) })
	if err := objects.Start(ctx, host); err != nil {
		return err
	}
	m.working.Go("the CloudProviders", func() { objects.Run(ctx) })
	return nil
}

// gone reports a provider whose object was deleted, and that this manager did
// not have: the object had a mistake when the manager started.
func (s *providers) gone(name string) {
	s.living.Go("telling that provider "+name+" is removed", func() {
		if s.leads() && !s.has(name) {
			s.tellRemoved(name)
		}
	})
}

// applyFile applies another file, with the CloudProviders if they are enabled.
func (s *providers) applyFile(ctx context.Context, next *v1alpha1.HostConfiguration) error {
	switch {
	case next.CloudProviders.Enabled != (s.objects != nil):
		return errObjects
	case s.objects != nil:
		return s.objects.SetFile(ctx, next)
	}
	return s.apply(ctx, next)
}

// fileInForce returns the last applied file, which must not be changed.
func (s *providers) fileInForce(ctx context.Context) (*v1alpha1.HostConfiguration, error) {
	if s.objects != nil {
		return s.objects.File(), nil
	}
	return s.inForce(ctx)
}

// told returns the receiver of a provider's status for its CloudProvider.
func (s *providers) told(name string) func(status.Status) {
	if s.objects == nil {
		return func(status.Status) {}
	}
	return func(x status.Status) { s.objects.Report(name, x) }
}

// lacks reports whether another manager serves a CloudProvider of which this
// one only knows a mistake. It is not ready then, so that it does not replace
// that manager, as with an invalid file.
func (m *manager) lacks() bool {
	return m.providers != nil && m.providers.objects != nil && m.providers.objects.Lacks() != ""
}
