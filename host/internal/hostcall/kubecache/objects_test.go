package kubecache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
	samples "github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

func node(name string, version int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(version), Labels: map[string]string{"version": fmt.Sprint(version)}},
	}
}

// reader follows objects as a guest does.
type reader struct {
	since *position
	have  map[string]string // name: uid and label
	pages int
}

// sync reads until there is no more, and returns what was told.
func (r *reader) sync(t *testing.T, s *objects, count int) (changed, deleted []string, restarted bool) {
	t.Helper()
	for {
		p, again := s.read(r.since, "", "", count)
		if again || r.since == nil {
			r.have = map[string]string{}
		}
		restarted = restarted || again
		var m abi.KubeResponse
		if err := m.UnmarshalVT(p.data); err != nil {
			t.Fatal(err)
		}
		for _, o := range m.Deleted {
			deleted = append(deleted, o.Name)
			delete(r.have, o.Name)
		}
		for _, o := range m.Objects {
			var n corev1.Node
			if err := n.Unmarshal(o.Object); err != nil || n.Name != o.Name || n.ResourceVersion != o.ResourceVersion {
				t.Fatalf("%v: %s %s", err, n.Name, n.ResourceVersion)
			}
			changed = append(changed, o.Name)
			r.have[o.Name] = o.Uid + " " + n.Labels["version"]
		}
		r.pages++
		r.since = &p.next
		if !p.more {
			return changed, deleted, restarted
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhatHasChangedIsTold(t *testing.T) {
	s, r := newObjects(), &reader{}
	must(t, s.Replace([]any{node("a", 1), node("b", 2), node("c", 3)}, "3"))
	if changed, deleted, restarted := r.sync(t, s, 2); !slices.Equal(changed, []string{"a", "b", "c"}) || deleted != nil || restarted || r.pages != 2 {
		t.Errorf("at first %v %v %v in %d pages", changed, deleted, restarted, r.pages)
	}
	if changed, deleted, _ := r.sync(t, s, 2); changed != nil || deleted != nil {
		t.Errorf("nothing was done, told are %v %v", changed, deleted)
	}
	must(t, s.Update(node("b", 4)))
	must(t, s.Delete(node("a", 1)))
	must(t, s.Add(node("d", 5)))
	if changed, deleted, _ := r.sync(t, s, 100); !slices.Equal(changed, []string{"b", "d"}) || !slices.Equal(deleted, []string{"a"}) {
		t.Errorf("told are %v %v", changed, deleted)
	}
	// The watch was broken: what is as before is no news.
	must(t, s.Replace([]any{node("b", 4), node("c", 6)}, "6"))
	if changed, deleted, restarted := r.sync(t, s, 100); !slices.Equal(changed, []string{"c"}) || !slices.Equal(deleted, []string{"d"}) || restarted {
		t.Errorf("after another list %v %v", changed, deleted)
	}
	// One that begins now hears of nothing that is gone.
	if changed, deleted, _ := (&reader{}).sync(t, s, 1); len(changed) != 2 || deleted != nil {
		t.Errorf("one that begins is told %v %v", changed, deleted)
	}
}

func TestAnObjectThatIsMadeAgain(t *testing.T) {
	s, r := newObjects(), &reader{}
	must(t, s.Replace([]any{node("a", 1)}, "1"))
	r.sync(t, s, 100)
	again := node("a", 2)
	again.UID = "another"
	must(t, s.Update(again)) // what a watch tells after a break
	if changed, deleted, _ := r.sync(t, s, 100); len(changed) != 1 || len(deleted) != 1 || r.have["a"] != "another 2" {
		t.Errorf("%v %v, it has %v", changed, deleted, r.have)
	}
}

func TestWhatNobodySeesIsNoChange(t *testing.T) {
	s, r := newObjects(), &reader{}
	full := func(version string) *corev1.Node {
		n := samples.NewNode(samples.Nodes(t)["kubeadm-joining.yaml"])
		n.ResourceVersion = version
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet" + version}}
		n.Annotations[lastApplied] = "{" + version + "}"
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"image" + version}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		return n
	}
	must(t, s.Replace([]any{full("1")}, "1"))
	r.sync(t, s, 100)
	p, _ := s.read(nil, "", "", 100)
	var m abi.KubeResponse
	must(t, m.UnmarshalVT(p.data))
	var n corev1.Node
	must(t, n.Unmarshal(m.Objects[0].Object))
	if n.ManagedFields != nil || n.Annotations[lastApplied] != "" || n.Status.Images != nil || !n.Status.Conditions[0].LastHeartbeatTime.IsZero() || n.Spec.Taints == nil {
		t.Errorf("it is not trimmed as it should be: %+v", n)
	}
	must(t, s.Update(full("2")))
	if changed, _, _ := r.sync(t, s, 100); changed != nil {
		t.Errorf("a heartbeat is told: %v", changed)
	}
	ready := full("3")
	ready.Status.Conditions[0].Status = corev1.ConditionFalse
	must(t, s.Update(ready))
	if changed, _, _ := r.sync(t, s, 100); len(changed) != 1 {
		t.Error("a condition is not told")
	}
}

func TestForgottenDeletionsBeginAnew(t *testing.T) {
	s, early, late := newObjects(), &reader{}, &reader{}
	var all []any
	for i := range maxGone + 10 {
		all = append(all, node(fmt.Sprint("n", i), 1))
	}
	must(t, s.Replace(all, "1"))
	early.sync(t, s, 1000)
	must(t, s.Delete(node("n0", 1)))
	late.sync(t, s, 1000)
	for i := 1; i < maxGone+5; i++ {
		must(t, s.Delete(node(fmt.Sprint("n", i), 1)))
	}
	if _, _, restarted := early.sync(t, s, 1000); !restarted || len(early.have) != 5 {
		t.Errorf("restarted is %v, %d objects are left, want 5", restarted, len(early.have))
	}
	if s.graves > maxGone || len(s.all.log) > 4*maxGone || len(s.spaces[""].log) > 4*maxGone {
		t.Errorf("%d deletions and %d changes are kept", s.graves, len(s.all.log))
	}
}

// Whoever reads, in pages of any size and at any time, has in the end what there
// is.
func TestReadersAgreeWithTheObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := newObjects()
	must(t, s.Replace(nil, "0"))
	want := map[string]string{}
	readers := []*reader{{}, {}, {}}
	for i := range 5000 {
		name := fmt.Sprint("n", random.IntN(40))
		n := node(name, i)
		n.UID = types.UID(fmt.Sprint("uid", random.IntN(3)))
		switch random.IntN(3) {
		case 0:
			must(t, s.Delete(n))
			delete(want, name)
		default:
			must(t, s.Add(n))
			want[name] = string(n.UID) + " " + fmt.Sprint(i)
		}
		if random.IntN(20) == 0 {
			r := readers[random.IntN(len(readers))]
			if r.sync(t, s, 1+random.IntN(7)); fmt.Sprint(r.have) != fmt.Sprint(want) {
				t.Fatalf("after %d changes it has\n%v, want\n%v", i, r.have, want)
			}
		}
	}
	if live := len(s.spaces[""].live); len(s.all.log) > 4*(live+s.graves)+200 {
		t.Errorf("the log has %d entries of %d objects", len(s.all.log), live)
	}
}

func TestPagesAreBounded(t *testing.T) {
	s := newObjects()
	var all []any
	for i := range 20 {
		all = append(all, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, BinaryData: map[string][]byte{"k": make([]byte, 300<<10)}})
	}
	must(t, s.Replace(all, "1"))
	var since *position
	for pages := 1; ; pages++ {
		p, _ := s.read(since, "", "", pageSize(4e9))
		if len(p.data) > maxPageBytes || len(p.data) == 0 {
			t.Fatalf("a page of %d bytes", len(p.data))
		}
		if since = &p.next; !p.more {
			if pages < 3 {
				t.Errorf("%d pages", pages)
			}
			return
		}
	}
}
