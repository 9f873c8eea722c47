package routing

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

// adoptPage is how many Services are listed at a time.
const adoptPage = 500

// Adopt writes the owner label to the Services of a provider that had everything and loses
// some by the next rules: without the label nothing would name the owner of their load
// balancers. It may be called again. One client needs the verb list on services, the other
// one patch on services/status.
func (n *Next) Adopt(ctx context.Context, lists, patches kubernetes.Interface) error {
	now := n.router.table()
	if !now.everything || n.table.everything {
		return nil
	}
	options := metav1.ListOptions{Limit: adoptPage}
	for {
		page, err := lists.CoreV1().Services("").List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing the Services that provider %q keeps: %w", now.names[0], err)
		}
		for i := range page.Items {
			if err := now.adopt(ctx, patches, &page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// adopt labels a Service that has, or may have, a load balancer of the provider.
func (t *table) adopt(ctx context.Context, client kubernetes.Interface, s *corev1.Service) error {
	class := s.Spec.LoadBalancerClass
	if !servicehelpers.HasLBFinalizer(s) || s.Labels[ServiceOwnerLabel] != "" || class != nil && t.classes[*class] == "" {
		return nil
	}
	// Without a resourceVersion: other changes of the Service do not matter, the load balancer
	// is the provider's.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "labels": map[string]any{ServiceOwnerLabel: t.names[0]}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // it is gone, or a new one of its name with another UID
		return nil
	}
	if err != nil {
		return fmt.Errorf("making Service %s provider %q's by its label %s, before others have Services: %w", key(s), t.names[0], ServiceOwnerLabel, mend(err))
	}
	return nil
}
