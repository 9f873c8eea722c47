package brake_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

func TestANodeGoesWithinAMinute(t *testing.T) {
	c := newCluster(t, 5, 1)
	c.rounds(35 * time.Second)
	c.wantDeleted(0)
	c.rounds(10 * time.Second)
	c.wantDeleted(1)
	if len(c.told) != 0 {
		t.Errorf("told %q of an ordinary deletion", c.told)
	}
	if c.ledger.writes != 1 {
		t.Errorf("%d writes", c.ledger.writes)
	}
}

// On a cloud that takes some seconds each question is first answered by when to ask
// again. That is told of only when it goes on.
func TestAnAnswerForLaterIsNotToldAtOnce(t *testing.T) {
	c := newCluster(t, 5, 1)
	asked := map[string]int{}
	slow := true
	answers := c.instances.fresh
	c.instances.fresh = func(node string) (bool, error) {
		if asked[node]++; slow || asked[node]%2 == 1 {
			return false, fmt.Errorf("instance_exists: %w", cloudproviderapi.NewRetryError("has been in progress for 50ms", time.Second))
		}
		return answers(node)
	}
	c.rounds(80 * time.Second)
	if c.wantDeleted(0); len(c.told) != 0 {
		t.Errorf("told %q", c.told)
	}
	c.rounds(40 * time.Second)
	if c.wantDeleted(0); len(c.told) != 1 || !strings.Contains(c.message, "in progress") {
		t.Errorf("after more than a minute: told %q, %q", c.told, c.message)
	}
	slow = false
	c.rounds(time.Minute)
	if c.wantDeleted(1); len(c.told) != 1 {
		t.Errorf("told %q", c.told)
	}
}

func TestTheBucketRefillsAndTheLongestMissingGoFirst(t *testing.T) {
	c := newCluster(t, 100, 50)
	for n := range 50 { // n049 is missing for the longest time, of equals n000 comes first
		c.change(n, n+1, func(node *corev1.Node) {
			node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(c.clock.Now().Add(-time.Duration(n/10) * time.Minute))
		})
	}
	c.rounds(time.Minute)
	slices.Sort(c.deleted)
	if want := "[n040 n041 n042 n043 n044 n045 n046 n047 n048 n049]"; fmt.Sprint(c.deleted) != want {
		t.Errorf("deleted %v, want %s", c.deleted, want)
	}
	if s := c.Status(); !s.Engaged || s.Gone != 40 || s.Size != 90 || s.Permits >= 1 || s.Burst != 9 {
		t.Errorf("status %+v", s)
	}
	c.rounds(30 * time.Minute)
	c.wantDeleted(18)
	if c.deleted[10] != "n030" || c.deleted[11] != "n031" {
		t.Errorf("deleted %v", c.deleted)
	}
	c.rounds(5 * time.Hour)
	c.wantDeleted(50)
	if _, err := c.InstanceMetadata(t.Context(), c.node("n099")); err != nil {
		t.Fatal(err)
	}
	if c.count("engaged true") != 1 || c.count("engaged false") != 1 || c.count("NoPermit") != 40 || len(c.told) != 42 {
		t.Errorf("told %d lines: %q", len(c.told), c.told)
	}
	if c.ledger.writes != 50 {
		t.Errorf("%d writes for 50 deletions", c.ledger.writes)
	}
}

func TestShares(t *testing.T) {
	for _, test := range []struct {
		size, gone, percent, nodes int
		once, hour                 int
	}{
		{3, 2, 10, 3, 1, 2}, {5, 4, 10, 3, 1, 4}, {10, 9, 10, 3, 3, 8}, {30, 20, 10, 3, 3, 9},
		{100, 50, 10, 3, 10, 25}, {100, 50, 10, 20, 20, 50}, {100, 99, 100, 3, 99, 99}, {100, 9, 1, 1, 1, 2},
	} {
		c := newCluster(t, test.size, test.gone, func(o *brake.Options) { o.Percent, o.Nodes = test.percent, test.nodes })
		c.rounds(time.Minute)
		once := len(c.deleted)
		c.rounds(time.Hour)
		if once != test.once || len(c.deleted) != test.hour {
			t.Errorf("%+v: %d at once, %d in an hour", test, once, len(c.deleted))
		}
	}
}

func TestTheSecondQuestionSavesAll(t *testing.T) {
	c := newCluster(t, 200, 50)
	c.instances.fresh = func(string) (bool, error) { return true, nil }
	c.rounds(2 * time.Hour)
	c.wantDeleted(0)
	if n := c.count("contradicted by instance"); n == 0 || n > 4 {
		t.Errorf("contradicted %d times", n)
	}
	c.instances.fresh = func(string) (bool, error) { return false, errors.New("trap") }
	c.rounds(time.Hour)
	c.wantDeleted(0)
}

func TestAKubeletThatLivesKeepsItsNode(t *testing.T) {
	c := newCluster(t, 100, 1)
	c.instances.fresh = func(node string) (bool, error) { return node > "n010", nil }
	c.change(0, 1, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	for range 720 { // an hour
		c.beats["n000"] = c.clock.Now().Add(time.Hour).Truncate(10 * time.Second) // its clock is wrong
		c.round()
		c.clock.Step(5 * time.Second)
	}
	c.wantDeleted(0)
	want := []string{"n000 KubeletAlive", "n000 contradicted by kubelet", "n000 NoPermit"}
	for _, line := range want {
		if c.count(line) != 1 {
			t.Errorf("told %q, want %q once", c.told, line)
		}
	}
	c.rounds(time.Hour) // it is dead
	c.wantDeleted(1)
}

// A Node may wait for a permit for hours, and its kubelet come back meanwhile.
func TestAKubeletThatComesBackWhileItsNodeWaits(t *testing.T) {
	c := newCluster(t, 100, 50)
	c.rounds(time.Hour)
	before := len(c.deleted)
	for range 30 * 60 / 5 {
		for _, name := range names("n", 0, 50) {
			c.beats[name] = c.clock.Now().Truncate(10 * time.Second)
		}
		c.round()
		c.clock.Step(5 * time.Second)
	}
	c.wantDeleted(before)
}

func TestAProviderWithoutProviderIDs(t *testing.T) {
	c := newCluster(t, 5, 1)
	c.change(0, 5, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	c.rounds(20 * time.Minute)
	c.wantDeleted(1)
}

func TestAShutdownThatTakesTwoMinutesIsNoLie(t *testing.T) {
	c := newCluster(t, 5, 1)
	for range 24 {
		c.beats["n000"] = c.clock.Now().Truncate(10 * time.Second)
		c.round()
		c.clock.Step(5 * time.Second)
	}
	c.wantDeleted(0)
	c.rounds(time.Minute + 30*time.Second)
	c.wantDeleted(1)
	if c.count("contradicted by kubelet") != 0 {
		t.Errorf("told %q", c.told)
	}
}

// A kubelet registers once: a Node that is deleted before its machine is in the
// inventory never comes back.
func TestANodeThatTheProviderHasNeverKnown(t *testing.T) {
	fresh := func(n *corev1.Node) {
		n.Spec.ProviderID = ""
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	t.Run("its kubelet lives", func(t *testing.T) {
		c := newCluster(t, 5, 1)
		c.change(0, 1, fresh)
		for range 2 * 3600 / 5 {
			c.beats["n000"] = c.clock.Now().Truncate(10 * time.Second)
			c.round()
			c.clock.Step(5 * time.Second)
		}
		c.wantDeleted(0)
		if fmt.Sprint(c.told) != "[n000 NotYetKnown]" || !strings.Contains(c.message, "inventory") {
			t.Errorf("told %q, %q", c.told, c.message)
		}
	})
	t.Run("it is silent", func(t *testing.T) {
		c := newCluster(t, 5, 1)
		c.change(0, 1, fresh)
		c.rounds(14 * time.Minute)
		c.wantDeleted(0)
		c.rounds(2 * time.Minute)
		c.wantDeleted(1)
	})
}

func TestNodesThatSomebodyElseDeletesDoNotCount(t *testing.T) {
	for name, test := range map[string]struct {
		mark func(*corev1.Node)
		want int
	}{
		"cluster autoscaler": {taint("ToBeDeletedByClusterAutoscaler"), 99},
		"candidate of it":    {taint("DeletionCandidateOfClusterAutoscaler"), 10},
		"Karpenter":          {taint("karpenter.sh/disrupted"), 99},
		"Cluster API": {func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			taint("node.cluster.x-k8s.io/outdated-revision")(n)
		}, 99},
		"of an old revision":  {taint("node.cluster.x-k8s.io/outdated-revision"), 10},
		"drained":             {func(n *corev1.Node) { n.Spec.Unschedulable = true }, 10},
		"being deleted":       {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, 99},
		"opted out":           {annotation(brake.NodeDeletionAnnotation, brake.Unbraked), 99},
		"kept":                {annotation(brake.NodeDeletionAnnotation, brake.Never), 0},
		"misspelt":            {annotation(brake.NodeDeletionAnnotation, "never"), 0},
		"a grace period":      {annotation(brake.GracePeriodAnnotation, "50s"), 10},
		"a long grace period": {annotation(brake.GracePeriodAnnotation, "2m"), 0},
		"a short one":         {annotation(brake.GracePeriodAnnotation, "1s"), 10},
		"no grace period":     {annotation(brake.GracePeriodAnnotation, "soon"), 0},
		"too long a one":      {annotation(brake.GracePeriodAnnotation, "25h"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 100, 99)
			c.change(0, 99, test.mark)
			c.rounds(time.Minute)
			c.wantDeleted(test.want)
			if test.want == 99 && c.ledger.writes != 0 {
				t.Errorf("%d permits were taken", c.ledger.writes)
			}
		})
	}
}

func taint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func annotation(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{key: value} }
}

func TestTheLastNodesStay(t *testing.T) {
	c := newCluster(t, 3, 3)
	c.rounds(6 * time.Hour)
	c.wantDeleted(0)
	if c.count("NoWitness") != 3 {
		t.Errorf("told %q", c.told)
	}
	node := c.node("n002") // one is back
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	c.put(node)
	exists := func(node string) (bool, error) { return node == "n002", nil }
	c.instances.exists, c.instances.fresh = exists, exists
	c.rounds(time.Hour)
	c.wantDeleted(2)
}

func TestAProviderThatKnowsNoNode(t *testing.T) {
	c := newCluster(t, 200, 20)
	nothing := func(string) (bool, error) { return false, nil }
	c.instances.exists, c.instances.fresh = nothing, nothing
	c.rounds(2 * time.Hour)
	c.wantDeleted(0)
	if n := c.count("contradicted by witness"); n == 0 || n > 4 {
		t.Errorf("contradicted %d times: %q", n, c.told)
	}
	exists := func(node string) (bool, error) { return node >= "n020", nil }
	c.instances.exists, c.instances.fresh = exists, exists // the right project
	c.rounds(2 * time.Hour)
	c.wantDeleted(20)
}

// The Nodes of a zone that is missing in a list are vouched for by Nodes of the
// same zone.
func TestAZoneThatIsMissing(t *testing.T) {
	c := newCluster(t, 100, 3)
	c.change(0, 50, func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "a"} })
	c.change(50, 100, func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "b"} })
	without := func(node string) (bool, error) { return node >= "n050", nil }
	c.instances.exists, c.instances.fresh = without, without
	c.rounds(time.Hour)
	c.wantDeleted(0)
}

func TestTheControlPlane(t *testing.T) {
	c := newCluster(t, 10, 2)
	c.change(0, 3, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })
	c.rounds(12 * time.Hour) // two of three are gone
	c.wantDeleted(0)
	c.change(3, 4, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })
	c.rounds(time.Hour) // one has been replaced
	c.wantDeleted(2)
}
