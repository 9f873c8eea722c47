package manager

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// measurePeriod is how often the metrics follow the status. Scrapes only read
// them: the status waits for locks of each provider, and reads all objects.
const measurePeriod = 15 * time.Second

// measure exports the status as metrics, until the context ends.
func (s *statusSource) measure(ctx context.Context, serving *apiserver.SecureServingInfo) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		defer func() { // an object that cannot be explained must not end the control loops
			if r := recover(); r != nil {
				klog.FromContext(ctx).Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "The metrics of the status were not updated")
			}
		}()
		told := s.numbers()
		var err error
		if told.CertificateEnds, err = certificateEnds(serving); err != nil {
			klog.FromContext(ctx).Error(err, "The metric of the secure port's certificate was not updated")
		}
		s.manager.metrics.Tell(told)
	}, measurePeriod)
}

// numbers are computed from the same facts as Status.
func (s *statusSource) numbers() metrics.Told {
	told := metrics.Told{Leads: s.self().Leads, Stuck: map[metrics.Stuck]int{}, Conditions: map[metrics.Condition]bool{}}
	if !told.Leads {
		return told
	}
	all := s.statuses()
	for i := range all {
		for _, c := range all[i].status.Conditions {
			told.Conditions[metrics.Condition{Provider: all[i].status.Name, Type: c.Type}] = c.Status == metav1.ConditionTrue
		}
	}
	if !s.synced() {
		return told
	}
	for e := range s.explained(all) {
		if e.State == v1alpha1.StateStuck {
			told.Stuck[metrics.Stuck{Kind: e.Object.Kind, Reason: e.Cause, Provider: e.Provider}]++
		}
	}
	return told
}

// certificateEnds is the earliest expiry among the secure port's present
// certificates: the files may have changed.
func certificateEnds(serving *apiserver.SecureServingInfo) (first time.Time, err error) {
	all := []dynamiccertificates.CertKeyContentProvider{serving.Cert}
	for _, named := range serving.SNICerts {
		all = append(all, named)
	}
	for _, provider := range all {
		if provider == nil {
			continue
		}
		pem, _ := provider.CurrentCertKeyContent()
		chain, err := certutil.ParseCertsPEM(pem)
		if err != nil {
			return time.Time{}, fmt.Errorf("the certificate of the secure port: %w", err)
		}
		for _, c := range chain {
			if first.IsZero() || c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
	}
	return first, nil
}
