package manager

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/cloudproviders"
)

// start applies the manager's first configuration: the file, and with
// cloudProviders.enabled the CloudProviders of the cluster, which it then watches.
func (s *providerSet) start(host *v1alpha1.HostConfiguration) error {
	// Invariant R14 (host/SECURITY.md): nobody looks at objects unless the file says so.
	if !host.CloudProviders.Enabled {
		return s.apply(s.work, host)
	}
	client, err := s.shared.outside.dynamic(s.shared.completed.Kubeconfig)
	if err != nil {
		return err
	}
	objects := cloudproviders.New(cloudproviders.Options{Client: client, Apply: s.apply, Gone: s.gone, Events: s.shared.events})
	s.objects = objects
	ctx := klog.NewContext(s.work, klog.Background().WithName("cloudproviders"))
	s.working.Go("the watch of CloudProviders", func() { objects.Watch(ctx) })
	if err := objects.Start(ctx, host); err != nil {
		return err
	}
	s.working.Go("the CloudProviders", func() { objects.Run(ctx) })
	return nil
}

// gone reports a provider whose object was deleted, and that this manager did
// not have: the object had a mistake when the manager started.
func (s *providerSet) gone(name string) {
	s.living.Go("telling that provider "+name+" is removed", func() {
		if s.leads() && !s.has(name) {
			s.tellRemoved(name)
		}
	})
}

// applyFile applies another file, with the CloudProviders if they are enabled.
func (s *providerSet) applyFile(ctx context.Context, next *v1alpha1.HostConfiguration) error {
	switch {
	case next.CloudProviders.Enabled != (s.objects != nil):
		return errObjects
	case s.objects != nil:
		return s.objects.SetFile(ctx, next)
	}
	return s.apply(ctx, next)
}

// fileInForce returns the last applied file, which must not be changed.
func (s *providerSet) fileInForce(ctx context.Context) (*v1alpha1.HostConfiguration, error) {
	if s.objects != nil {
		return s.objects.File(), nil
	}
	return s.inForce(ctx)
}

// lacks reports whether another manager serves a CloudProvider of which this
// one only knows a mistake. It is not ready then, so that it does not replace
// that manager, as with an invalid file.
func (s *providerSet) lacks() bool { return s.objects != nil && s.objects.Lacks() != "" }
