package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// servedProvider is one of whose module nothing is wrong.
func servedProvider(conditions ...metav1.Condition) status.Provider {
	m := &status.Module{Digest: "a"}
	return status.Provider{Name: "p", Phase: status.PhaseKept, Serving: m, Offered: m, Services: &status.Objects{}, Nodes: &status.Objects{Total: 1}, Conditions: conditions}
}

// What is told already of a provider's object is not told twice, and its provider is not
// said to be good.
func TestNothingIsGoodOfWhatIsStuck(t *testing.T) {
	p := servedProvider()
	p.Stuck = []status.Explanation{{Object: status.Object{Kind: "Node", Name: "n"}, Provider: "p", Cause: report.NotHandedOver}}
	c := &checker{status: &status.Status{Manager: status.Manager{Leads: true}, Providers: []status.Provider{p}}}
	c.tell(report.NotHandedOver, "node n", "")
	c.manager(t.Context())
	if Count(c.findings, Error) != 1 || found(c.findings, Finding{Severity: OK, Reason: "Provider"}) {
		t.Errorf("%+v", c.findings)
	}
}

// A configuration that the manager has not taken is told beside another mistake of the
// ConfigMap, once for all providers.
func TestAnotherMistakeOfTheConfiguration(t *testing.T) {
	rejected := metav1.Condition{Type: status.ConditionConfigured, Status: metav1.ConditionFalse, Reason: report.HostConfigurationRejected, Message: "cloudProviders.enabled cannot change"}
	q := servedProvider(rejected)
	q.Name = "q"
	c := &checker{status: &status.Status{Manager: status.Manager{Leads: true}, Providers: []status.Provider{servedProvider(rejected), q}}}
	c.tell(report.HostConfigurationInvalid, "configmap "+c.own(), "providers[1].name: must not be empty")
	c.manager(t.Context())
	if Count(c.findings, Error) != 2 || !found(c.findings, Finding{Severity: Error, Reason: report.HostConfigurationRejected, What: "cannot change"}) {
		t.Errorf("%+v", c.findings)
	}
}

func podIn(state corev1.ContainerState) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p", Labels: map[string]string{nameLabel: managerName}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: managerName, Image: "example.com/ccm:v2", State: state,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}}}
}

func waitingFor(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

// Without a manager that runs, silence and a Lease that has ended are consequences, and no
// log says anything: an image that is gone is told once, also after a first start.
func TestSilenceIsAConsequence(t *testing.T) {
	c := &checker{Options: Options{Namespace: "kube-system"}, dates: &dates{clock: time.Now}, unreachable: errors.New("no Pod of the manager runs"),
		seen: cluster{workload: &workload{kind: "DaemonSet", counted: true, wanted: 1, made: 1}, leases: []coordinationv1.Lease{}, pods: []corev1.Pod{podIn(waitingFor("ImagePullBackOff"))}}}
	c.leader(t.Context())
	c.pods(t.Context())
	c.manager(t.Context())
	if Count(c.findings, Error) != 1 || !found(c.findings, Finding{Severity: Error, Reason: report.PodNotStarted, What: "image example.com/ccm:v2"}) {
		t.Errorf("%+v", c.findings)
	}
}

// A kubelet that warns of something else, or once, does not fail.
func TestAWarningIsNoFailure(t *testing.T) {
	list := &corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}, Items: []corev1.Event{
		{Reason: "DNSConfigForming", Count: 9, LastTimestamp: metav1.Now()}, {Reason: "FailedMount", Count: 1, LastTimestamp: metav1.Now()}}}
	pod := podIn(waitingFor("ContainerCreating"))
	c := &checker{dates: &dates{clock: time.Now}, client: served(t, map[string]any{"/api/v1/namespaces//events": list, "/api/v1/events": list})}
	if c.pod(t.Context(), &pod); len(c.findings) != 0 {
		t.Errorf("%+v", c.findings)
	}
	list.Items[1].Count, list.Items[1].Message = 2, `configmap "ca" not found`
	c.client = served(t, map[string]any{"/api/v1/namespaces//events": list, "/api/v1/events": list})
	if c.pod(t.Context(), &pod); !found(c.findings, Finding{Severity: Error, Reason: report.PodNotStarted, What: `configmap "ca" not found`}) {
		t.Errorf("%+v", c.findings)
	}
}

// The rule that is missing is whole, however many names the message has.
func TestTheRuleIsWhole(t *testing.T) {
	var all []Right
	for _, n := range rolloutNames("openstack-frankfurt-1") {
		all = together(all, within("kube-system/cloud-controller-manager", "kube-system", "", "configmaps", n, "get", "list", "watch", "update", "patch"))
	}
	c := &checker{}
	c.lacks(all[len(all)-1])
	if mend := c.findings[0].Mend; !strings.HasSuffix(mend, "]}") {
		t.Errorf("%d bytes: %s", len(mend), mend)
	}
}

// A manager of another namespace is no second one where none is installed; cloud loops in
// kube-controller-manager are told all the same.
func TestAManagerOfAnotherNamespace(t *testing.T) {
	now, holder, seconds := metav1.NowMicro(), "host_1", int32(3600)
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ccm", Name: managerName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	c := &checker{Options: Options{Namespace: "kube-system"}, dates: &dates{clock: time.Now}, seen: cluster{leases: []coordinationv1.Lease{lease}}}
	run := func(words ...string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ccm", Name: words[0]}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: words}}}}
	}
	c.seen.pods = []corev1.Pod{run(managerName), run(kubeManager, "--cloud-provider=external")}
	c.managers(t.Context())
	c.workload(t.Context())
	if Count(c.findings, Error) != 0 || !found(c.findings, Finding{Severity: Warning, Reason: report.NotInstalled, What: "namespace ccm"}) || !found(c.findings, Finding{Severity: OK, Reason: "Managers", What: "no " + kubeManager}) {
		t.Errorf("%+v", c.findings)
	}
	c.seen.pods[1] = run(kubeManager, "--cloud-provider=aws")
	c.managers(t.Context())
	if Count(c.findings, Error) != 1 || !found(c.findings, Finding{Severity: Error, Reason: report.InTreeCloudProvider, What: "--cloud-provider=aws"}) {
		t.Errorf("%+v", c.findings)
	}
}

// A kubelet that says nothing is told, and not taken for a manager that begins.
func TestAKubeletThatSaysNothing(t *testing.T) {
	pod := podIn(corev1.ContainerState{})
	pod.Spec.NodeName = "m1"
	pod.Status.ContainerStatuses = nil
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	c := &checker{Options: Options{Namespace: "kube-system", Patience: time.Minute}, dates: &dates{clock: time.Now}, seen: cluster{workload: &workload{kind: "DaemonSet", counted: true, wanted: 1, made: 1}, pods: []corev1.Pod{pod}}}
	c.pods(t.Context())
	if len(c.findings) != 1 || !found(c.findings, Finding{Severity: Error, Reason: report.PodNotStarted, What: "the kubelet of node m1 says nothing"}) {
		t.Errorf("%+v", c.findings)
	}
}
