package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// besideTicks are the moments at which a Node comes or goes, and Services with it.
	besideTicks = 12
	besideNodes = 3
	// besideRatio is the goal. On a machine that does other things as well all may be a
	// little larger.
	besideRatio, besideRatioShared = 1.1, 1.5
)

// besideProvider has the shipped limits.
const besideProvider = `
- name: a
  source: {configMap: {namespace: $NS, name: provider}}
  grants: [{scheme: http, host: 127.0.0.1, port: $CLOUD_PORT}]
  routing: {nodes: {schemes: [faulty]}, services: {default: true}}
`

// TestBesideNative has Services come, change and go while Nodes come and go, for a
// native manager and for this project's: at four speeds of cloud, of which the slow
// ones take longer for a load balancer than a Node stays away. Two of the speeds are
// part of make test-all.
func TestBesideNative(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	speeds := []time.Duration{300 * time.Millisecond, slowCall}
	reports := os.Getenv("BENCH_REPORT") != ""
	if reports {
		speeds = append(speeds, 20*time.Millisecond, 10*time.Second)
	}
	for _, takes := range speeds {
		t.Run(takes.String(), func(t *testing.T) {
			if !reports {
				t.Parallel() // it has control planes of its own
			}
			sides := newSides(t, "beside", besideProvider, func(next http.Handler) http.Handler { return next }, besideNodes)
			for _, s := range sides {
				s.slow.take(takes)
			}
			restless(t, sides, max(takes*13/20, time.Second))
			compareSides(t, sides, bound(besideRatio, besideRatioShared), int(bound(2, 10)))
			sides[1].waitedAsLongAs(t, sides[0])
		})
	}
}

// waitedAsLongAs allows a tenth more, and half a second; beside other tests twice the time,
// and two seconds.
func (s *side) waitedAsLongAs(t *testing.T, native *side) {
	t.Helper()
	for _, percent := range []int{50, 90} {
		here, there := s.waits.quantile(percent), native.waits.quantile(percent)
		if here.Seconds() > there.Seconds()*bound(besideRatio, 2)+bound(0.5, 2) {
			t.Errorf("%d %% have an address after %v, natively after %v", percent, here, there)
		}
	}
}

// restless lets something happen to both sides at each tick, and waits then until
// all is as it should be.
func restless(t *testing.T, sides []*side, every time.Duration) {
	t.Helper()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for n := range besideTicks {
		for _, s := range sides {
			s.tick(t.Context(), t, n)
		}
		<-ticks.C
	}
	for _, s := range sides {
		s.settled(t)
	}
	for _, s := range sides { // one after the other, as its time is taken
		begun := time.Now()
		s.join(t.Context(), t, 1) // else upstream leaves out a Node that came while a load balancer was made
		s.settled(t)
		s.joins = time.Since(begun)
	}
}

// tick is the nth one: a Node comes, and goes at the next one; three Services come at
// each third one, and one of them is changed and another one deleted later.
func (s *side) tick(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	if names := s.names(); len(names) > besideNodes {
		s.drain(ctx, t, names[len(names)-1])
	} else {
		s.join(ctx, t, 1)
	}
	services := s.client.CoreV1().Services(s.namespace)
	switch last := n/3*3 - 3; n % 3 {
	case 0:
		for i := range 3 {
			s.service(ctx, t, s.namespace, fmt.Sprintf("web-%02d", n+i), nil)
		}
	case 1:
		if last < 0 {
			return
		}
		ports := fmt.Sprintf(`{"spec":{"ports":[{"port":%d,"protocol":"TCP"}]}}`, 8000+n)
		if _, err := services.Patch(ctx, fmt.Sprintf("web-%02d", last), types.MergePatchType, []byte(ports), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	case 2:
		if last < 0 {
			return
		}
		if err := services.Delete(ctx, fmt.Sprintf("web-%02d", last+1), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
