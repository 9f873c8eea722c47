package deploy_test

import (
	"bytes"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// The workload of the default values. That its rollouts end on one, two and three
// nodes is shown by TestRollouts (make test-rollouts), with the real controllers;
// here is what it depends on.
func TestDaemonSet(t *testing.T) {
	depend(t)
	var daemonSet appsv1.DaemonSet
	for _, document := range bytes.Split(render(t), []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\nkind: DaemonSet\n")) {
			if err := yaml.UnmarshalStrict(document, &daemonSet); err != nil {
				t.Fatal(err)
			}
		}
	}
	if daemonSet.Name != manager {
		t.Fatal("no DaemonSet: a Deployment of two with ports of the host never ends its rollout on one node")
	}
	strategy := daemonSet.Spec.UpdateStrategy.RollingUpdate
	for nodes := 1; nodes <= 5; nodes++ {
		most, err := intstr.GetScaledValueFromIntOrPercent(strategy.MaxUnavailable, nodes, true)
		if err != nil {
			t.Fatal(err)
		}
		// A node that is down is one of those that are unavailable.
		if nodes > 1 && most < 2 || most < 1 {
			t.Errorf("of %d nodes %d may be unavailable: with one down nothing is updated", nodes, most)
		}
		if nodes > 2 && most >= nodes {
			t.Errorf("of %d nodes %d may be unavailable: a broken image ends every manager", nodes, most)
		}
	}
	checkTolerations(t, daemonSet.Spec.Template.Spec)
}

// checkTolerations wants that neither a Node that waits for the manager, nor one
// that is late or cannot be reached, keeps it away or drives it out.
func checkTolerations(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	for _, taint := range []corev1.Taint{
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/control-plane", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule},
	} {
		tolerated := slices.ContainsFunc(spec.Tolerations, func(toleration corev1.Toleration) bool {
			return toleration.TolerationSeconds == nil && toleration.Key == taint.Key &&
				(toleration.Effect == "" || toleration.Effect == taint.Effect) &&
				(toleration.Operator == corev1.TolerationOpExists || toleration.Value == taint.Value)
		})
		if !tolerated {
			t.Errorf("the taint %s is not tolerated", taint.ToString())
		}
	}
}
