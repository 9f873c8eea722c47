//go:build !race

package manager

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The metrics count each Node and its route every 15 seconds: what that takes grows with
// the Nodes, and not with their square, also while many routes fail.
func TestTheStatusOfALargeCluster(t *testing.T) {
	c, module := newCloud(t), guest(t, `["instance_exists"]`)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, c, module)
		w.write(fileHead + w.provider("one", first("one")))
		m, err := w.begin("1")
		if err != nil {
			t.Fatal(err)
		}
		defer m.end()
		source := m.newStatusSource((&ccmconfig.Config{SharedInformers: m.informers}).Complete())
		one := m.all()[0]
		perNode := func(n int) (allocations float64, spent time.Duration) {
			nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			for i := range n {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)}, Spec: corev1.NodeSpec{ProviderID: fmt.Sprint("one://", i), PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}}}
				if err := nodes.Add(node); err != nil {
					t.Fatal(err)
				}
				one.history.told(controllers.Call{Kind: v1alpha1.KindRoute, Name: node.Name, Op: "create", Err: fmt.Errorf("quota")})
			}
			source.nodes = corelisters.NewNodeLister(nodes)
			loops := []v1alpha1.Loop{{Name: names.NodeRouteController, Running: true}, {Name: names.CloudNodeController, Running: true}}
			all := []view{{one, v1alpha1.Provider{Name: "one", Serving: &v1alpha1.Module{}, Loops: loops}, n}}
			allocations, spent = testing.AllocsPerRun(1, func() { source.countObjects(all) })/float64(n), time.Hour
			for range 3 {
				began := processor(t)
				source.countObjects(all)
				spent = min(spent, (processor(t)-began)/time.Duration(n))
			}
			if p := all[0].status; p.Nodes.Total != n || p.Routes.Total != n || p.Routes.Stuck != n || len(p.Stuck) != v1alpha1.MaxStuck {
				t.Errorf("%d Nodes: %+v %+v, %d named", n, p.Nodes, p.Routes, len(p.Stuck))
			}
			return allocations, spent
		}
		few, quick := perNode(100)
		many, slow := perNode(5000)
		t.Logf("a Node of 100: %v allocations, %v; of 5000: %v, %v", few, quick, many, slow)
		if few > 100 || many > 100 || slow > 10*max(quick, 10*time.Microsecond) {
			t.Errorf("a Node of 100: %v allocations, %v; of 5000: %v, %v", few, quick, many, slow)
		}
	})
}

// processor is the processor time of this process: that of the clock is the test's own.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
