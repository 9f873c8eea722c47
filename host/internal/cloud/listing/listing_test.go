package listing

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func TestARefreshCostsPagesAndNotQuestions(t *testing.T) {
	for servers, pages := range map[int]int{1: 1, 100: 1, 101: 2, 200: 2, 1234: 13} {
		in(t, servers, func(w *world) {
			for range 3 {
				if got := w.refresh(servers); got != servers {
					t.Errorf("%d of %d nodes got metadata", got, servers)
				}
				w.cost("a refresh", pages, 0)
				time.Sleep(5 * time.Minute)
			}
		})
	}
}

func TestMetadataFromAListing(t *testing.T) {
	in(t, 3, func(w *world) {
		want := &cloudprovider.InstanceMetadata{
			ProviderID: "fake://1", Zone: "z1", AdditionalLabels: map[string]string{"rack": "a"},
			NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}},
		}
		for range 2 {
			got, err := w.Listing.InstanceMetadata(w.t.Context(), node(1))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatal(err, diff)
			}
			got.AdditionalLabels["rack"] = "changed"
			got.NodeAddresses[0].Address = "changed"
		}
		w.cost("two questions", 1, 0)
		if w.heard().served != 2 || w.heard().listed != 1 || w.heard().asked != 0 {
			t.Errorf("observed %+v", w.heard())
		}
	})
}

func TestWhatIsAskedDirectly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(servers []*abi.Instance)
		node   *corev1.Node
		direct bool
	}{
		"listed":                             {nil, node(1), false},
		"not listed":                         {nil, node(7), true},
		"two with its provider ID":           {func(s []*abi.Instance) { s[2].Metadata.ProviderId = "fake://1" }, node(1), true},
		"three with its provider ID":         {func(s []*abi.Instance) { s[2].Metadata.ProviderId, s[0].Metadata.ProviderId = "fake://1", "fake://1" }, node(1), true},
		"two with its name, but its own ID":  {func(s []*abi.Instance) { s[2].NodeName = "n001" }, node(1), false},
		"its name with another ID":           {func(s []*abi.Instance) { s[1].Metadata.ProviderId = "fake://again" }, node(1), true},
		"no name known":                      {func(s []*abi.Instance) { s[1].NodeName = "" }, node(1), false},
		"a zone that is no label":            {func(s []*abi.Instance) { s[1].Metadata.Zone = "a zone" }, node(1), true},
		"an address that is none":            {func(s []*abi.Instance) { s[1].Metadata.Addresses[0].Address = "ten" }, node(1), true},
		"an address that is refused":         {func(s []*abi.Instance) { s[1].Metadata.Addresses[0].Address = "169.254.169.254" }, node(1), true},
		"another is not usable":              {func(s []*abi.Instance) { s[0].Metadata.Zone = "a zone" }, node(1), false},
		"new, alone":                         {nil, newNode(1), true},
		"initialised, but without an ID yet": {nil, &corev1.Node{ObjectMeta: node(1).ObjectMeta}, true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 3, func(w *world) {
				if test.change != nil {
					test.change(w.servers)
				}
				w.refresh(1)
				w.spent()
				m, err := w.Listing.InstanceMetadata(w.t.Context(), test.node)
				if _, direct := w.spent(); (direct == 1) != test.direct {
					t.Errorf("%d direct questions", direct)
				}
				if err == nil && (m.Region == "direct") != test.direct {
					t.Errorf("metadata %+v", m)
				}
			})
		})
	}
}

func TestManyNewNodesUseAListing(t *testing.T) {
	in(t, 200, func(w *world) {
		w.refresh(200)
		w.cost("the refresh", 2, 0)
		ask := func(from, to int) {
			for n := from; n < to; n++ {
				m, err := w.Listing.InstanceMetadata(w.t.Context(), newNode(n))
				if err != nil || m.ProviderID == "" && m.Region != "direct" {
					t.Errorf("node %d: %+v, %v", n, m, err)
				}
			}
		}
		ask(0, 1)
		w.cost("one new node", 0, 1)
		time.Sleep(5 * time.Minute)
		ask(0, 100)
		w.cost("100 new nodes", 2, few)
		time.Sleep(recent + time.Second)
		ask(100, 101)
		w.cost("one more soon after", 2, 0)
		time.Sleep(window + time.Second)
		ask(101, 102)
		w.cost("one more later", 0, 1)
	})
	in(t, 200, func(w *world) { // by name: two of them have the same
		w.servers[50].NodeName, w.servers[60].Metadata.ProviderId = "n051", "fake://61"
		for n := range 100 {
			if _, err := w.Listing.InstanceMetadata(w.t.Context(), newNode(n)); err != nil && n != 50 {
				t.Error(n, err)
			}
		}
		w.cost("100 new nodes", 2, few+4) // n050 is not there, n051 is two, n060 and n061 have one ID
	})
}

func TestManyNodesThatAreNotReadyUseAListing(t *testing.T) {
	in(t, 200, func(w *world) {
		w.servers[199].State = abi.PowerState_POWER_STATE_SHUTDOWN
		w.servers[198].State = abi.PowerState_POWER_STATE_UNSPECIFIED
		w.monitor(few)
		w.cost("a few", 0, 2*few)
		for round := range 12 { // a minute
			if exist, down := w.monitor(200); exist != 200 || down != 1 {
				t.Fatalf("round %d: %d exist, %d are down", round, exist, down)
			}
			time.Sleep(5 * time.Second)
		}
		// A listing in 20 s; the few that are known before it, and in each round
		// the one whose state is not known.
		w.cost("200 for a minute", 3*2, 2*few+12)
		time.Sleep(time.Minute)
		w.monitor(few)
		w.cost("a few again", 0, 2*few)
	})
}

func TestALargeClusterAsksDirectlyForMore(t *testing.T) {
	in(t, 2000, func(w *world) { // 20 pages
		w.refresh(2000)
		time.Sleep(time.Minute)
		w.spent()
		w.monitor(20)
		w.cost("as many as there are pages", 0, 40)
		w.monitor(21)
		w.cost("one more", 20, 40)
	})
}

func TestOnlyADirectAnswerSaysGone(t *testing.T) {
	in(t, 200, func(w *world) {
		w.refresh(200)
		w.remove(func(n int) bool { return n != 7 })
		w.spent()
		if exists, err := w.Listing.InstanceExists(w.t.Context(), node(7)); !exists || err != nil {
			t.Errorf("just listed: %v, %v", exists, err)
		}
		w.cost("listed just now", 0, 0)
		time.Sleep(recent + time.Second)
		if exists, err := w.Listing.InstanceExists(w.t.Context(), node(7)); exists || err != nil {
			t.Errorf("gone: %v, %v", exists, err)
		}
		w.cost("listed a while ago", 0, 1)
		w.monitor(200)
		time.Sleep(recent + time.Second)
		w.spent()
		w.monitor(200)
		w.cost("all of them", 2, 1)
		if exists, err := w.Listing.InstanceExistsFresh(w.t.Context(), node(8)); !exists || err != nil {
			t.Errorf("fresh: %v, %v", exists, err)
		}
		w.cost("a second opinion", 0, 1)
		w.remove(func(int) bool { return false })
		time.Sleep(time.Minute)
		if exist, _ := w.monitor(200); exist != 0 {
			t.Errorf("%d exist of an empty cloud", exist)
		}
		w.cost("an empty list", 1, 200)
	})
}

func TestAGuestWithoutListsIsAskedDirectly(t *testing.T) {
	in(t, 20, func(w *world) {
		w.refresh(20)
		w.spent()
		w.canList = func() bool { return false } // another generation
		w.refresh(20)
		w.monitor(20)
		w.cost("all", 0, 60)
	})
}

func TestResetForgets(t *testing.T) {
	in(t, 20, func(w *world) {
		w.refresh(20)
		w.spent()
		w.Reset()
		w.servers[3].Metadata.Zone = "z2"
		if m, err := w.Listing.InstanceMetadata(w.t.Context(), node(3)); err != nil || m.Zone != "z2" {
			t.Errorf("%+v, %v", m, err)
		}
		w.cost("a question after the reset", 1, 0)
	})
}

func TestAListingUnderWayIsDiscarded(t *testing.T) {
	in(t, 20, func(w *world) {
		release := make(chan struct{})
		w.list = func(ctx context.Context, number uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
			if number != 1 {
				return w.page(ctx, number, token, size)
			}
			<-release // it does not heed the context, and comes back in the end
			return &abi.ListInstancesResponse{Done: true, Instances: []*abi.Instance{{Metadata: &abi.InstanceMetadata{ProviderId: "fake://3", Zone: "old"}}}}, nil
		}
		_, err := w.Listing.InstanceMetadata(w.t.Context(), node(3))
		if err == nil {
			t.Error("metadata out of nothing")
		}
		w.Reset()
		w.refresh(20)
		close(release)
		synctest.Wait()
		if m, err := w.Listing.InstanceMetadata(w.t.Context(), node(3)); err != nil || m.Zone != "z1" {
			t.Errorf("%+v, %v", m, err)
		}
		if h := w.heard(); h.listed != 1 || len(h.failed) != 0 {
			t.Errorf("observed %+v", h)
		}
		w.cost("all", 1, 0)
	})
}

func TestResetAndCloseEndWhatIsUnderWay(t *testing.T) {
	in(t, 20, func(w *world) {
		running := 0
		w.list = func(ctx context.Context, _ uint64, _ string, _ uint32) (*abi.ListInstancesResponse, error) {
			running++
			defer func() { running-- }()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w.refresh(1)
		w.Reset()
		synctest.Wait()
		if running != 0 {
			t.Error("the listing goes on after a reset")
		}
		w.refresh(1)
		start := time.Now()
		w.Close()
		if took := time.Since(start); took != 0 || running != 0 {
			t.Errorf("the end took %v, and %d listings go on", took, running)
		}
		w.spent()
		w.refresh(20)
		w.cost("all after the end", 0, 20)
		if len(w.heard().failed) != 0 {
			t.Errorf("failed %v", w.heard().failed)
		}
	})
}

func TestOneListingForAllWhoAsk(t *testing.T) {
	in(t, 200, func(w *world) {
		w.list = func(ctx context.Context, number uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
			time.Sleep(time.Second)
			return w.page(ctx, number, token, size)
		}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if got := w.refresh(200); got != 200 {
					t.Errorf("%d got metadata", got)
				}
			})
		}
		group.Wait()
		w.cost("ten refreshes at once", 2, 0)
	})
}

func TestACallerThatLeavesDoesNotEndTheListing(t *testing.T) {
	in(t, 20, func(w *world) {
		w.list = func(ctx context.Context, number uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return w.page(ctx, number, token, size)
		}
		ctx, cancel := context.WithTimeoutCause(w.t.Context(), time.Millisecond, errors.New("left"))
		defer cancel()
		if _, err := w.Listing.InstanceMetadata(ctx, node(1)); err == nil {
			t.Error("metadata out of nothing")
		}
		time.Sleep(time.Second)
		w.refresh(20)
		w.cost("all", 1, 0)
	})
}
