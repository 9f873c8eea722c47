package manager

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
)

var began = time.Date(2026, 11, 23, 21, 0, 0, 0, time.UTC)

// ofPod is the mark of a process that ran in a Pod, ten minutes after its start.
func ofPod(name string) trial.Mark { return trial.Mark{Pod: name, Since: began.Add(10 * time.Minute)} }

func withPod(name string) func(string) string {
	return func(variable string) string {
		return map[string]string{"POD_NAME": name, "POD_NAMESPACE": "ns"}[variable]
	}
}

// terminatedBy is the end of a container after an hour of life.
func terminatedBy(reason string, code int32, start time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, StartedAt: metav1.NewTime(start), FinishedAt: metav1.NewTime(start.Add(time.Hour)),
	}}
}

func podOf(status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ccm-1"}, Status: status}
}

func TestWhatTheKubeletSays(t *testing.T) {
	killed, completed := terminatedBy("OOMKilled", 137, began), terminatedBy("Completed", 0, began)
	later, before := terminatedBy("Error", 2, began.Add(time.Hour)), terminatedBy("Error", 2, began.Add(-time.Hour))
	for name, test := range map[string]struct {
		status  corev1.PodStatus
		want    string
		orderly bool
	}{
		"OOMKilled":             {status: podStatus(corev1.ContainerStatus{LastTerminationState: killed}), want: "the kubelet says: OOMKilled, exit code 137, finished at 2026-11-23T22:00:00Z"},
		"not moved yet":         {status: podStatus(corev1.ContainerStatus{State: killed, LastTerminationState: before}), want: "the kubelet says: OOMKilled, exit code 137, finished at 2026-11-23T22:00:00Z"},
		"in order":              {status: podStatus(corev1.ContainerStatus{LastTerminationState: completed}), want: "the kubelet says: Completed, exit code 0, finished at 2026-11-23T22:00:00Z", orderly: true},
		"of several containers": {status: podStatus(corev1.ContainerStatus{LastTerminationState: completed}, corev1.ContainerStatus{}), want: "the kubelet says: Completed, exit code 0, finished at 2026-11-23T22:00:00Z"},
		"no time of its start": {
			status: podStatus(corev1.ContainerStatus{LastTerminationState: terminatedFrom(completed)}),
			want:   "the kubelet says: Completed, exit code 0, finished at 2026-11-23T22:00:00Z",
		},
		"the process before that one": {status: podStatus(corev1.ContainerStatus{LastTerminationState: before})},
		// It ended before the mark was made, so the report is not about the mark's process.
		"the process after that one": {status: podStatus(corev1.ContainerStatus{LastTerminationState: later})},
		"nothing ended":              {status: podStatus(corev1.ContainerStatus{})},
		"Evicted":                    {status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: "the kubelet says: Evicted"},
		"Evicted, with an exit code": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", ContainerStatuses: []corev1.ContainerStatus{{State: terminatedBy("Error", 137, began)}}},
			want:   "the kubelet says: Evicted, Error, exit code 137, finished at 2026-11-23T22:00:00Z",
		},
		"hostile": {status: podStatus(corev1.ContainerStatus{LastTerminationState: terminatedBy("\x1b[2J\n"+strings.Repeat("x", 1<<20), 1, began)}), want: "the kubelet says: ?[2J; " + strings.Repeat("x", 229) + "..."},
	} {
		synctest.Test(t, func(t *testing.T) {
			said := ownPod(fake.NewClientset(podOf(test.status)), withPod("ccm-1")).ended(t.Context(), ofPod("ccm-1"))
			if said.Text != test.want || said.Orderly != test.orderly {
				t.Errorf("%s: %+v, want %q, orderly %v", name, said, test.want, test.orderly)
			}
		})
	}
}

func podStatus(containers ...corev1.ContainerStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: containers}
}

// terminatedFrom is the state without its start time.
func terminatedFrom(state corev1.ContainerState) corev1.ContainerState {
	end := *state.Terminated
	end.StartedAt = metav1.Time{}
	return corev1.ContainerState{Terminated: &end}
}

// An unreadable or unnamed Pod does not delay the start.
func TestAPodThatSaysNothing(t *testing.T) {
	for name, test := range map[string]struct {
		own, left string
		err       error
		asked     int
		took      time.Duration
	}{
		"nobody names it":                    {left: "ccm-1"},
		"the mark is of a manager of before": {own: "ccm-1"},
		"forbidden":                          {own: "ccm-1", left: "ccm-1", err: errors.New("forbidden"), asked: 1},
		"the Pod of before is gone":          {own: "ccm-2", left: "ccm-1", err: errors.New("not found"), asked: 1},
		"the Pod of before says nothing":     {own: "ccm-2", left: "ccm-1", asked: 1},
		"the kubelet is late":                {own: "ccm-1", left: "ccm-1", asked: 20, took: podTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, asked, start := fake.NewClientset(podOf(corev1.PodStatus{})), 0, time.Now()
			client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return test.err != nil, nil, test.err
			})
			environment := withPod(test.own)
			if test.own == "" {
				environment = func(string) string { return "" }
			}
			if said := ownPod(client, environment).ended(t.Context(), ofPod(test.left)); said != (trials.Said{}) {
				t.Errorf("%s: it says %+v", name, said)
			}
			if took := time.Since(start); asked < test.asked || (test.asked == 0 || test.took == 0) && asked != test.asked || took != test.took {
				t.Errorf("%s: asked %d times in %v", name, asked, took)
			}
		})
	}
}

// The kubelet reports the end to the API server while the next process starts.
func TestTheKubeletIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		client := fake.NewClientset()
		client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if asked++; asked < 4 {
				return true, podOf(podStatus(corev1.ContainerStatus{})), nil
			}
			return true, podOf(podStatus(corev1.ContainerStatus{LastTerminationState: terminatedBy("OOMKilled", 137, began)})), nil
		})
		if said := ownPod(client, withPod("ccm-1")).ended(t.Context(), ofPod("ccm-1")); !strings.Contains(said.Text, "OOMKilled") || asked != 4 {
			t.Errorf("%+v after %d questions", said, asked)
		}
	})
}

// The whole manager marks its Pod, and reads it after its restart.
func TestASuspectHasTheKubeletsWords(t *testing.T) {
	t.Setenv(podName, "ccm-1")
	t.Setenv(podNamespace, namespace)
	inWalk(t, func(w *walk) {
		w.standby.end()
		w.offerKind("two", good)
		time.Sleep(20 * time.Second)
		name, now := w.leader.name, time.Now()
		w.leader.kill()
		object := podOf(podStatus(corev1.ContainerStatus{LastTerminationState: terminatedBy("OOMKilled", 137, now.Add(-59*time.Minute))}))
		object.Namespace = namespace
		if _, err := (&line{server: w.api}).client().CoreV1().Pods(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		one, err := w.begin(name)
		if err != nil {
			w.t.Fatal(err)
		}
		w.leader = one
		w.leads()
		time.Sleep(time.Minute)
		if s := w.statusOf("two"); !strings.Contains(s.Message, "OOMKilled, exit code 137") {
			w.t.Errorf("%s %s: %s", s.Phase, s.Reason, s.Message)
		}
	})
}
