package election

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// tripped is a function as a transport.
type tripped func(*http.Request) (*http.Response, error)

func (t tripped) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func lease(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
}

// write is an elector's request, in JSON or protobuf.
func write(t *testing.T, object runtime.Object, contentType string) *http.Request {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	if !ok {
		t.Fatal("no serializer of ", contentType)
	}
	data, err := runtime.Encode(info.Serializer, object)
	if err != nil {
		t.Fatal(err)
	}
	const path = "https://api/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheLeaseIsGivenBack(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		for _, holder := range []string{"own", "other"} {
			l := &Leases{client: fake.NewClientset(lease(holder)), held: map[types.NamespacedName]string{}, renewed: map[types.NamespacedName]time.Time{}}
			sent := 0
			trip := leaseTripper{l, tripped(func(*http.Request) (*http.Response, error) { sent++; return nil, nil })}
			if _, err := trip.RoundTrip(write(t, lease("own"), contentType)); err != nil || sent != 1 { //nolint:bodyclose // no body
				t.Fatal(sent, err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := l.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]string{"own": "", "other": "other"}[holder]; *got.Spec.HolderIdentity != want {
				t.Errorf("%s: the holder %q is %q now, want %q", contentType, holder, *got.Spec.HolderIdentity, want)
			}
			if _, err := trip.RoundTrip(write(t, lease("own"), contentType)); !errors.Is(err, errLeaseReturned) || sent != 1 { //nolint:bodyclose // no body
				t.Errorf("the elector takes it again: %v", err)
			}
		}
	}
}

// A Lease is overdue from the last successful write, and only after one.
func TestAnOverdueLeaseIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Leases{client: fake.NewClientset(), held: map[types.NamespacedName]string{}, renewed: map[types.NamespacedName]time.Time{}}
		code := http.StatusConflict
		trip := leaseTripper{l, tripped(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: code}, nil })}
		renew := func() {
			t.Helper()
			if _, err := trip.RoundTrip(write(t, lease("own"), runtime.ContentTypeJSON)); err != nil { //nolint:bodyclose // no body
				t.Fatal(err)
			}
		}
		renew()
		time.Sleep(time.Hour)
		if err := l.Overdue(time.Minute); err != nil {
			t.Errorf("a standby that took nothing: %v", err)
		}
		code = http.StatusOK
		renew()
		time.Sleep(time.Minute)
		if err := l.Overdue(time.Minute); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := l.Overdue(time.Minute); err == nil {
			t.Error("it was not renewed, and nobody is told")
		}
	})
}

// A standby has no Lease, and releases none.
func TestAStandbyGivesNothingBack(t *testing.T) {
	client := fake.NewClientset(lease("leader"))
	l := &Leases{client: client, held: map[types.NamespacedName]string{}, renewed: map[types.NamespacedName]time.Time{}}
	if err := l.Release(t.Context()); err != nil || len(client.Actions()) != 0 {
		t.Errorf("%v, %v", client.Actions(), err)
	}
}

// The elector's last write may be running when the manager ends: it must not
// follow the release.
func TestReleaseWaitsForTheElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Leases{client: fake.NewClientset(lease("own")), held: map[types.NamespacedName]string{}, renewed: map[types.NamespacedName]time.Time{}}
		answer := make(chan struct{})
		trip := leaseTripper{l, tripped(func(*http.Request) (*http.Response, error) { <-answer; return nil, nil })}
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			_, _ = trip.RoundTrip(write(t, lease("own"), runtime.ContentTypeJSON)) //nolint:bodyclose // no body
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it did not wait: %v", err)
		}
		close(answer)
		<-renewed
		synctest.Wait()
	})
}
