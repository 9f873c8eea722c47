package egress_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// A changed Secret makes a client beside the old one each second: together they
// send what one may.
func TestReloadsDoNotMultiplyTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, status(200))
		options := egress.Options{RequestsPerSecond: 1, Burst: 5, MaxTimeout: time.Millisecond}
		var clients []*egress.Client
		for range 20 {
			client := cloud.client(t, options, cloudURL)
			options.Traffic = client.Traffic()
			clients = append(clients, client)
			for _, c := range clients { // those before serve on
				sendOne(t, c, get(cloudURL))
			}
			time.Sleep(time.Second)
		}
		if n := cloud.requests.Load(); n > 5+20 {
			t.Errorf("%d requests in 20 s, of one a second", n)
		}
		wantCode(t, sendOne(t, clients[0], get("http://elsewhere.example/")), abi.CodeDenied, "")
		wantCode(t, sendOne(t, clients[19], get(cloudURL)), abi.CodeThrottled, "more than 1 requests per second")
	})
}

func TestABreakerOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, status(200))
		cloud.refuse = func(string) error { return errors.New("connection refused") }
		options := egress.Options{MaxRetries: -1}
		first := cloud.client(t, options, cloudURL)
		for range 5 {
			wantCode(t, sendOne(t, first, request("POST", cloudURL)), abi.CodeUnavailable, "connection refused")
		}
		options.Traffic = first.Traffic()
		wantCode(t, sendOne(t, cloud.client(t, options, cloudURL), get(cloudURL)), abi.CodeUnavailable, "nothing is sent")

		// What fails with the certificates of one says nothing of others.
		other := grant(t, cloudURL)
		other.Trust = "another bundle"
		client := newClient(t, options, other)
		egress.ConnectBy(client, cloud.connect)
		wantCode(t, sendOne(t, client, get(cloudURL)), abi.CodeUnavailable, "connection refused")
	})
}

func TestTheRetryBudgetOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, status(503))
		options := egress.Options{MinRetries: 3, MaxRetries: 1, Backoff: time.Millisecond, BreakerFailures: 1000}
		for range 20 {
			client := cloud.client(t, options, cloudURL)
			options.Traffic = client.Traffic()
			sendOne(t, client, get(cloudURL))
		}
		if n := cloud.requests.Load(); n > 20+4 { // a fifth of 20
			t.Errorf("%d requests for 20 of a provider", n)
		}
	})
}

// Requests under way count for all clients, and what the administrator allows
// holds from the moment when it is enforced, for all of them.
func TestLimitsHoldForAllClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underway, most atomic.Int32
		answer := make(chan struct{})
		cloud := newCloud(t, func(http.ResponseWriter, *http.Request) {
			most.Store(max(most.Load(), underway.Add(1)))
			<-answer
			underway.Add(-1)
		})
		options := egress.Options{MaxConcurrent: 2, MaxPerHost: 2}
		first := cloud.client(t, options, cloudURL)
		options.Traffic, options.MaxConcurrent, options.MaxPerHost = first.Traffic(), 3, 3
		second := cloud.client(t, options, cloudURL)
		for _, c := range []*egress.Client{first, second, first, second, second} {
			go func() { _, _ = c.Send(context.WithoutCancel(t.Context()), []*abi.HttpRequest{get(cloudURL)}) }()
		}
		synctest.Wait()
		if n := underway.Load(); n != 2 {
			t.Errorf("%d requests under way, want 2: nobody has enforced more", n)
		}
		second.Enforce()
		synctest.Wait()
		if n := underway.Load(); n != 3 {
			t.Errorf("%d requests under way, want 3", n)
		}
		close(answer)
		synctest.Wait()
		if most.Load() != 3 || underway.Load() != 0 {
			t.Errorf("%d under way, at most %d", underway.Load(), most.Load())
		}
	})
}
