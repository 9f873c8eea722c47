package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// For any number of requests there is one round in ten seconds, and no waiting
// for another one's. The round of a caller that left is not lost.
func TestReachabilityIsAskedInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := 0
		r := &reachRounds{round: func(ctx context.Context) *v1alpha1.Reachability {
			rounds++
			begun := metav1.Now()
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
				t.Error("a round was given up")
			}
			return &v1alpha1.Reachability{Time: begun}
		}}
		gone, leave := context.WithCancel(t.Context())
		leave()
		go func() { _, _ = r.get(gone) }()
		synctest.Wait()
		for range 100 {
			if _, err := r.get(t.Context()); !apierrors.IsTooManyRequests(err) {
				t.Fatalf("while another is answered: %v", err)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for range 100 {
			if answer, err := r.get(t.Context()); err != nil || answer.Time.IsZero() || rounds != 1 {
				t.Fatalf("after %d rounds: %v %v", rounds, answer, err)
			}
		}
		time.Sleep(5 * time.Second)
		if _, err := r.get(t.Context()); err != nil || rounds != 2 {
			t.Errorf("after ten seconds there were %d rounds: %v", rounds, err)
		}
	})
}

// The API has the results of egress.
func TestResultsOfTheAPI(t *testing.T) {
	for result, told := range map[string]string{
		egress.Reached: v1alpha1.HostReached, egress.NotResolved: v1alpha1.HostNotResolved, egress.AddressRefused: v1alpha1.HostAddressRefused,
		egress.NotConnected: v1alpha1.HostNotConnected, egress.TLSFailed: v1alpha1.HostTLSFailed, egress.NotAsked: v1alpha1.HostNotAsked,
	} {
		if result != told {
			t.Errorf("%s is told as %s", result, told)
		}
	}
}
