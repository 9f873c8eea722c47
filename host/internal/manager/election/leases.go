// Package election extends upstream's leader election: the manager releases the
// lease at its end, and only the leader writes Events.
package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
)

// Leases releases the leader's lease when the manager ends. Upstream's command
// runs the election under an unpublished name, renews until the process ends,
// and does not release: the next leader would wait for the lease's expiry. So
// Leases observes the manager's writes of Leases to the API server, and refuses
// further ones after the release.
type Leases struct {
	// client is not affected by Leases.
	client kubernetes.Interface

	mu sync.Mutex
	// held is the last written holder of each Lease.
	held map[types.NamespacedName]string
	// renewed is the time of the last successful write.
	renewed map[types.NamespacedName]time.Time
	closed  bool
	// writing are the running requests.
	writing sync.WaitGroup
}

// maxLeaseBytes bounds the part of a request that is read: a Lease has some hundred bytes.
const maxLeaseBytes = 64 << 10

// NewLeases observes all later clients of the configuration. The client is an
// earlier one.
func NewLeases(client kubernetes.Interface, config *restclient.Config) *Leases {
	l := &Leases{client: client, held: map[types.NamespacedName]string{}, renewed: map[types.NamespacedName]time.Time{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return leaseTripper{l, next} })
	return l
}

// leaseTripper is an http.RoundTripper.
type leaseTripper struct {
	leases *Leases
	next   http.RoundTripper
}

// errLeaseReturned is the elector's error after the release.
var errLeaseReturned = errors.New("this manager is stopping and has released its lease")

// RoundTrip implements http.RoundTripper.
func (t leaseTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, "/apis/coordination.k8s.io/") {
		return t.next.RoundTrip(request)
	}
	lease, err := t.leases.enter(request)
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	defer t.leases.writing.Done()
	response, err := t.next.RoundTrip(request)
	if err == nil && lease != nil && response != nil && response.StatusCode < http.StatusMultipleChoices {
		t.leases.wrote(lease)
	}
	return response, err
}

// enter begins a write, unless the Leases are released. It returns the written Lease.
func (l *Leases) enter(request *http.Request) (*coordinationv1.Lease, error) {
	lease := leaseOf(request)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errLeaseReturned
	}
	if lease != nil && lease.Spec.HolderIdentity == nil {
		lease = nil
	}
	if lease != nil {
		l.held[nameOf(lease)] = *lease.Spec.HolderIdentity
	}
	l.writing.Add(1)
	return lease, nil
}

func nameOf(lease *coordinationv1.Lease) types.NamespacedName {
	return types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
}

func (l *Leases) wrote(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed[nameOf(lease)] = time.Now()
}

// Overdue returns an error when this process has not renewed one of its Leases
// for so long. Its elector should have ended the process before.
func (l *Leases) Overdue(after time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, at := range l.renewed {
		if since := time.Since(at); since > after && !l.closed {
			return fmt.Errorf("the lease %s was renewed %v ago, and this process still runs", name, since.Round(time.Second))
		}
	}
	return nil
}

// leaseOf is the Lease that a request writes, or nil.
func leaseOf(request *http.Request) *coordinationv1.Lease {
	if request.GetBody == nil {
		return nil
	}
	body, err := request.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxLeaseBytes))
	if err != nil {
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil
	}
	lease, _ := object.(*coordinationv1.Lease)
	return lease
}

// Release releases all Leases of this process. It must not write to the cloud
// afterwards.
func (l *Leases) Release(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.writing.Wait()
	}()
	select {
	case <-written: // a later write would take the lease back
	case <-ctx.Done():
		return ctx.Err()
	}
	var failed error
	for name, holder := range l.held {
		failed = errors.Join(failed, l.releaseOne(ctx, name, holder))
	}
	return failed
}

// releaseOne acts like client-go with ReleaseOnCancel: the Lease stays, without
// a holder.
func (l *Leases) releaseOne(ctx context.Context, name types.NamespacedName, holder string) error {
	api := l.client.CoordinationV1().Leases(name.Namespace)
	for {
		lease, err := api.Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != holder:
			return nil // another holder has it by now
		}
		nobody, second, now := "", int32(1), metav1.NewMicroTime(time.Now())
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &second
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
		if _, err = api.Update(ctx, lease, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}
