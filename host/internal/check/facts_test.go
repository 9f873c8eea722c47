package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// A hostname may differ from the name of the Node. Another leader is certain
// only if all managers have answered, and none of them leads.
func TestWhoLeads(t *testing.T) {
	now, holder, seconds := metav1.NowMicro(), "ip-10-0-0-1_4711", int32(3600)
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: managerName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p", Labels: map[string]string{nameLabel: managerName}},
		Spec: corev1.PodSpec{HostNetwork: true, NodeName: "node-1"}}
	leads, stands := &status.Status{Manager: status.Manager{Leads: true, Lease: "kube-system/" + managerName}}, &status.Status{}
	alone := &status.Status{Manager: status.Manager{Leads: true, Host: "node-1:10258"}}
	for name, test := range map[string]struct {
		pods   []corev1.Pod
		status *status.Status
		silent error
		want   Severity
		reason string
	}{
		"its own manager, by another hostname":      {[]corev1.Pod{pod}, leads, nil, OK, "Leader"},
		"nobody answered":                           {[]corev1.Pod{pod}, nil, errors.New("no"), Unknown, "Leader"},
		"one of two stands by, the other is silent": {[]corev1.Pod{pod, pod}, stands, errors.New("pod q: no"), Unknown, "Leader"},
		"all answered, and none leads":              {[]corev1.Pod{pod}, stands, nil, Error, "ForeignLeader"},
		"there is no Pod":                           {[]corev1.Pod{}, nil, nil, Error, "ForeignLeader"},
		"it leads without a Lease":                  {[]corev1.Pod{pod}, alone, nil, Error, "TwoManagers"},
	} {
		c := &checker{Options: Options{Namespace: "kube-system"}, dates: &dates{clock: time.Now}, status: test.status, unreachable: test.silent,
			seen: cluster{workload: &workload{}, leases: []coordinationv1.Lease{lease}, pods: test.pods}}
		c.leader(t.Context())
		if len(c.findings) != 1 || !found(c.findings, Finding{Severity: test.want, Reason: test.reason}) {
			t.Errorf("%s: %+v", name, c.findings)
		}
	}
}

// Before an installation Nodes wait, and there is no leader: no other finding.
func TestBeforeAnInstallation(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}}}
	for want, nodes := range map[string][]corev1.Node{"1 of 1 Nodes wait": {node}, "there is no Node": nil} {
		c := &checker{dates: &dates{clock: time.Now}, seen: cluster{nodes: nodes}}
		c.nodes(t.Context())
		if !found(c.findings, Finding{Severity: OK, Reason: "Nodes", What: want}) {
			t.Errorf("%q is not in %+v", want, c.findings)
		}
	}
	p, err := readPlan([]byte("{kind: Deployment, metadata: {name: cloud-controller-manager}, spec: {template: {spec: {hostNetwork: true, priorityClassName: a, tolerations: [{operator: Exists}]}}}}\n---\nkind: HostConfiguration\n"), "plan")
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{plan: p, client: served(t, nil)}
	c.workload(t.Context())
	for _, f := range c.findings {
		if strings.Contains(f.What, "leads") {
			t.Errorf("of what is only planned: %+v", f)
		}
	}
}

// served is an API server with these objects, by their paths.
func served(t *testing.T, objects map[string]any) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if object, there := objects[r.URL.Path]; there {
			_ = json.NewEncoder(w).Encode(object)
			return
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}))
	t.Cleanup(server.Close)
	return kubernetes.NewForConfigOrDie(&restclient.Config{Host: server.URL})
}

// Check and status give the same reason why no Pod of the manager runs.
func TestMissing(t *testing.T) {
	const daemonSets, deployments = "/apis/apps/v1/namespaces/kube-system/daemonsets/" + managerName, "/apis/apps/v1/namespaces/kube-system/deployments/" + managerName
	daemonSet := func(generation int64, wanted, made int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"}, ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Spec:   appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"role": "control-plane"}}}},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: generation, DesiredNumberScheduled: wanted, CurrentNumberScheduled: made}}
	}
	eventsOf := func(ages ...time.Duration) map[string]any {
		list := &corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}}
		for _, age := range ages {
			list.Items = append(list.Items, corev1.Event{Reason: "FailedCreate", Message: fmt.Sprintf("quota %v", age), LastTimestamp: metav1.NewTime(time.Now().Add(-age))})
		}
		return map[string]any{daemonSets: daemonSet(2, 3, 0), "/api/v1/namespaces/kube-system/events": list}
	}
	deployment := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: memory"}}}}
	waiting := func(reason string, before *corev1.ContainerStateTerminated) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p", Labels: map[string]string{nameLabel: managerName}}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Image: "example.com/ccm:v1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}, LastTerminationState: corev1.ContainerState{Terminated: before}}}}}
	}
	idle := deployment.DeepCopy()
	idle.Spec.Replicas, idle.Status.Conditions = new(int32), nil
	unmounted := eventsOf(time.Minute)
	unmounted["/api/v1/namespaces/kube-system/events"].(*corev1.EventList).Items[0].Count = 2
	unmounted[daemonSets] = daemonSet(2, 1, 1)
	ended, evicted := waiting("", nil), waiting("", nil)
	evicted.Status.Phase, evicted.Status.ContainerStatuses = corev1.PodFailed, nil
	evicted.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}
	for name, test := range map[string]struct {
		objects map[string]any
		pods    []corev1.Pod
		want    Finding
		mend    string
	}{
		"nothing is installed":         {nil, nil, Finding{Severity: Warning, Reason: "NotInstalled"}, "install the chart"},
		"no node matches":              {map[string]any{daemonSets: daemonSet(2, 0, 0)}, nil, Finding{Severity: Error, Reason: "NoNodeMatches", What: "nodeSelector map[role:control-plane]"}, "label the nodes"},
		"not counted yet":              {map[string]any{daemonSets: daemonSet(1, 0, 0)}, nil, Finding{Severity: Error, Reason: "NoPods", What: "has not counted"}, "kube-controller-manager"},
		"a full quota":                 {eventsOf(time.Hour, time.Minute, 5*time.Minute), nil, Finding{Severity: Error, Reason: "PodsMissing", What: "0 of 3 Pods: quota 1m0s (1m"}, "get resourcequota"},
		"a full quota an hour ago":     {eventsOf(time.Hour), nil, Finding{Severity: Warning, Reason: "PodsAwaited", What: "no Event of the last 20m0s says why"}, "describe daemonset"},
		"a full quota of a Deployment": {map[string]any{deployments: deployment}, nil, Finding{Severity: Error, Reason: "PodsMissing", What: "0 of 1 Pods: exceeded quota: memory"}, "get resourcequota"},
		"nobody says why":              {map[string]any{daemonSets: daemonSet(2, 3, 0)}, nil, Finding{Severity: Warning, Reason: "PodsAwaited", What: "no Event of the last 20m0s says why"}, "describe daemonset"},
		"0 replicas":                   {map[string]any{deployments: idle}, nil, Finding{Severity: Error, Reason: "NoReplicas"}, "--replicas=2"},
		"Pods of another label":        {map[string]any{daemonSets: daemonSet(2, 1, 1)}, nil, Finding{Severity: Error, Reason: "NoPods", What: "1 Pods by its controller's count"}, "--show-labels"},
		"one was evicted":              {map[string]any{daemonSets: daemonSet(2, 0, 0)}, []corev1.Pod{evicted}, Finding{Severity: Error, Reason: "NoNodeMatches"}, "label the nodes"},
		"a volume that is not there":   {unmounted, []corev1.Pod{waiting("ContainerCreating", nil)}, Finding{Severity: Error, Reason: "PodNotStarted", What: "quota 1m0s (1m"}, "describe pod p"},
		"it has just ended":            {map[string]any{daemonSets: daemonSet(2, 1, 1)}, []corev1.Pod{ended}, Finding{Severity: Error, Reason: "PodEnded", What: "exit code 2: Error"}, "logs p; kubectl"},
		"no image":                     {map[string]any{daemonSets: daemonSet(2, 1, 1)}, []corev1.Pod{waiting("ErrImagePull", nil)}, Finding{Severity: Error, Reason: "PodNotStarted", What: "ErrImagePull; image example.com/ccm:v1"}, "describe pod p"},
		"it cannot start": {map[string]any{daemonSets: daemonSet(2, 1, 1)}, []corev1.Pod{waiting("CrashLoopBackOff", &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no provider"})},
			Finding{Severity: Error, Reason: "PodNotRunning", What: "exit code 1: Error no provider"}, "logs p --previous"},
	} {
		got := Missing(t.Context(), served(t, test.objects), "kube-system", test.pods)
		if len(got) != 1 || !found(got, test.want) || !strings.Contains(got[0].Mend, test.mend) || test.mend != "logs p --previous" && strings.Contains(got[0].Mend, "--previous") {
			t.Errorf("%s: %+v", name, got)
		}
		if cause := report.Find(test.want.Reason); cause.Means == "" || !strings.HasPrefix(got[0].What, cause.Means) || !strings.HasPrefix(got[0].Mend, cause.Next.What) {
			t.Errorf("%s: the words are not the register's: %+v", name, got)
		}
	}
}

// A cluster of a thousand nodes does not make a message of a thousand Pods.
func TestMissingIsBounded(t *testing.T) {
	set := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"}, Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 1000, CurrentNumberScheduled: 1000}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Labels: map[string]string{nameLabel: managerName}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}}}
	got := Missing(t.Context(), served(t, map[string]any{"/apis/apps/v1/namespaces/kube-system/daemonsets/" + managerName: set}), "kube-system", slices.Repeat([]corev1.Pod{pod}, 1000))
	if len(got) != maxAlike+1 || !strings.Contains(got[maxAlike].What, "980 more") {
		t.Errorf("%d findings", len(got))
	}
}

// Pods that have just begun are not said to be ready.
func TestPodsThatBegin(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Labels: map[string]string{nameLabel: managerName}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}}}
	c := &checker{Options: Options{Namespace: "kube-system", Patience: time.Hour}, dates: &dates{clock: time.Now},
		seen: cluster{workload: &workload{counted: true, wanted: 1, made: 1}, pods: []corev1.Pod{pod}}}
	c.pods(t.Context())
	if len(c.findings) != 1 || !found(c.findings, Finding{Severity: OK, Reason: "Pods", What: "1 of the manager's 1 Pods are not ready yet"}) {
		t.Errorf("%+v", c.findings)
	}
}

// A manager that has just started has not failed: what it does not say is unknown.
func TestAManagerThatBegins(t *testing.T) {
	c := &checker{status: &status.Status{Providers: []status.Provider{{Name: "p"}}}}
	c.manager(t.Context())
	if Count(c.findings, Error) != 0 || !found(c.findings, Finding{Severity: Unknown, Reason: "Provider", Where: "provider p"}) {
		t.Errorf("%+v", c.findings)
	}
}

// A mistake that check and the manager both find is told once.
func TestOneMistakeIsToldOnce(t *testing.T) {
	configured := []metav1.Condition{{Type: status.ConditionConfigured, Status: metav1.ConditionFalse, Reason: "Rejected"}}
	node := status.Explanation{Object: status.Object{Kind: "Node", Name: "n"}, Provider: "p", Cause: report.NotHandedOver}
	c := &checker{Options: Options{Namespace: "kube-system"}, status: &status.Status{Providers: []status.Provider{{Name: "p", Phase: status.PhaseKept, Serving: &status.Module{}, Conditions: configured, Stuck: []status.Explanation{node}}}}}
	c.tell(report.NotHandedOver, "node n", "")
	c.tell(report.HostConfigurationInvalid, "configmap "+c.own(), "")
	c.manager(t.Context())
	if n := Count(c.findings, Error); n != 2 {
		t.Errorf("%d errors: %+v", n, c.findings)
	}
}

// A Service is named with its namespace, also one that waits for a provider.
func TestStuckObjectsAreNamed(t *testing.T) {
	stuck := status.Explanation{Object: status.Object{Kind: "Service", Namespace: "web", Name: "front"}, Cause: "NoProvider", Message: "m"}
	for _, s := range []status.Status{{Nobodys: []status.Explanation{stuck}}, {Providers: []status.Provider{{Stuck: []status.Explanation{stuck}}}}} {
		c := &checker{status: &s}
		c.manager(t.Context())
		if !slices.Contains(c.findings, Finding{Severity: Error, Reason: "NoProvider", Where: "service web/front", What: "m", Mend: "ccmctl why service front -n web"}) {
			t.Errorf("%+v", c.findings)
		}
	}
}

// A cause that holds back all objects of a provider is told once, and not of each.
func TestOneCauseIsToldOnce(t *testing.T) {
	var stuck []status.Explanation
	for _, name := range []string{"a", "b"} {
		for _, cause := range []string{"NothingServes", "LoopNotRunning"} {
			stuck = append(stuck, status.Explanation{Object: status.Object{Kind: "Service", Namespace: "web", Name: name}, Provider: "p", Cause: cause, Message: "m"})
			stuck = append(stuck, status.Explanation{Object: status.Object{Kind: "Node", Name: name}, Provider: "p", Cause: cause, Message: "m"})
		}
	}
	c := &checker{status: &status.Status{Providers: []status.Provider{{Name: "p", Phase: status.PhaseRejected, Stuck: stuck}}}}
	c.manager(t.Context())
	if n := Count(c.findings, Error); n != 3 || !found(c.findings, Finding{Severity: Error, Reason: "LoopNotRunning", Where: "provider p, Services"}) {
		t.Errorf("%d errors: %+v", n, c.findings)
	}
}

// Of a provider only what the manager has looked at is said to be good.
func TestWhatIsGoodOfAProvider(t *testing.T) {
	serving := &status.Module{Digest: "a"}
	for want, s := range map[string]status.Status{
		"it serves what is offered; none of its 2 Services and 3 Nodes is stuck": {Manager: status.Manager{Leads: true}, Providers: []status.Provider{{Phase: status.PhaseKept, Serving: serving, Offered: serving, Services: &status.Objects{Total: 2}, Nodes: &status.Objects{Total: 3}}}},
		"it serves what is offered":                                     {Providers: []status.Provider{{Phase: status.PhaseServing, Serving: serving, Offered: serving}}},
		"it serves; the rollout of what is offered is in phase Loading": {Manager: status.Manager{Leads: true}, Providers: []status.Provider{{Serving: serving, Offered: serving, Phase: "Loading"}}}, // on another private configuration, or other grants
	} {
		c := &checker{status: &s}
		c.manager(t.Context())
		if !slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Severity == OK && f.Reason == "Provider" && f.What == want }) {
			t.Errorf("%q is not in %+v", want, c.findings)
		}
		if found(c.findings, Finding{Severity: Unknown, Reason: "Objects"}) == s.Manager.Leads {
			t.Errorf("leads %v: %+v", s.Manager.Leads, c.findings)
		}
	}
}

// Each condition of a provider has its cause in the register, and one that waits is no error.
func TestConditionsHaveCauses(t *testing.T) {
	for condition, want := range map[[2]string]Finding{
		{status.ConditionConfigured, report.HostConfigurationRejected}: {Severity: Error, Reason: report.HostConfigurationRejected},
		{status.ConditionConfigured, report.HostConfigurationPending}:  {Severity: Warning, Reason: report.HostConfigurationPending},
		{status.ConditionConfigured, "Rejected"}:                       {Severity: Error, Reason: report.HostConfigurationRejected}, // of an earlier release
		{status.ConditionSource, "RegistryUnavailable"}:                {Severity: Warning, Reason: report.SourceUnavailable},
		{status.ConditionDurable, report.NotDurable}:                   {Severity: Error, Reason: report.NotDurable},
		{status.ConditionTicked, "Failed"}:                             {Severity: Warning, Reason: report.TickFailed},
		{"Other", "Why"}:                                               {Severity: Error, Reason: report.ConditionFalse},
	} {
		c := &checker{status: &status.Status{Providers: []status.Provider{{Name: "p", Serving: &status.Module{},
			Conditions: []metav1.Condition{{Type: condition[0], Status: metav1.ConditionFalse, Reason: condition[1]}}}}}}
		c.manager(t.Context())
		if !found(c.findings, want) {
			t.Errorf("%v: %+v is not in %+v", condition, want, c.findings)
		}
	}
}

// What status names of a provider, check names as well.
func TestConditionsOfAProvider(t *testing.T) {
	c := &checker{status: &status.Status{Providers: []status.Provider{{Name: "p", Phase: status.PhaseKept, Serving: &status.Module{},
		Conditions: []metav1.Condition{{Type: status.ConditionSource, Status: metav1.ConditionFalse, Reason: "RegistryUnavailable", Message: "connection refused"}}}}}}
	c.manager(t.Context())
	if !found(c.findings, Finding{Severity: Warning, Reason: "SourceUnavailable", Where: "provider p", What: "SourceAvailable is False (RegistryUnavailable): connection refused"}) {
		t.Errorf("findings: %+v", c.findings)
	}
}

// A container that somebody has added to the Pod does not keep the manager from answering.
func TestTheFaultOfAnotherContainer(t *testing.T) {
	crashes := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for want, state := range map[string]corev1.ContainerState{"": runs, "CrashLoopBackOff": crashes} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", State: crashes}, {Name: managerName, State: state}}}}
		if what, _ := Fault(pod); !strings.Contains(what, want) || (what == "") != (want == "") {
			t.Errorf("%q, want %q", what, want)
		}
	}
}
