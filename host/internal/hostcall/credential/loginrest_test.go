package credential

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// loginSpecs are the credentials that log in.
func loginSpecs(t *testing.T) map[string]Spec {
	return map[string]Spec{
		"a body": soapLogin(t),
		"basic":  {Basic: &Basic{}, Session: &Session{Header: "X-Session", Field: "value"}},
	}
}

// Instances that log in at the same time with a wrong password are one refusal:
// clouds lock accounts after five.
func TestLoginsAtOnceAreOneRefusal(t *testing.T) {
	for name, spec := range loginSpecs(t) {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int32
			begun, release := make(chan struct{}, 8), make(chan struct{})
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				seen.Add(1)
				begun <- struct{}{}
				<-release
				w.WriteHeader(http.StatusUnauthorized)
			})
			set, _ := newTestSet(t, newFakeSecrets("username", "user", "password", "s3cr3t-s3cr3t"), spec)
			var instances sync.WaitGroup
			for range 8 {
				instances.Go(func() {
					if _, err := trySend(t, set, "", "POST", url+"/sdk", "the-host-has-it"); err != nil {
						refused(t, err, abi.CodeUnauthenticated, "the cloud answered 401 to the login")
					}
				})
			}
			<-begun
			select {
			case <-begun:
				t.Error("two logins are in flight")
			case <-time.After(50 * time.Millisecond): // at worst nothing is found out
			}
			close(release)
			instances.Wait()
			if got := seen.Load(); got != 1 {
				t.Errorf("%d logins were refused, want 1", got)
			}
		})
	}
}

// A login without an answer holds up the next one until that is known, or until its
// own time is over.
func TestALoginWithoutAnAnswer(t *testing.T) {
	for name, spec := range loginSpecs(t) {
		t.Run(name, func(t *testing.T) {
			set, _ := newTestSet(t, newFakeSecrets("username", "user", "password", "s3cr3t-s3cr3t"), spec)
			apply := func(ctx context.Context) (Answered, error) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://cloud.example/sdk", nil)
				if err != nil {
					t.Fatal(err)
				}
				return set.Apply(ctx, "cloud", "", req, []byte("the-host-has-it"))
			}
			first, err := apply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = apply(ended)
			var e *abi.Error
			if !errors.As(err, &e) || e.Code != abi.CodeDeadline {
				t.Errorf("while one is in flight: %v", err)
			}
			first(0, nil, nil)
			next, err := apply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			next(http.StatusOK, http.Header{}, []byte(`{"value": "a-session-value"}`))
		})
	}
}
