package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// written counts writes that reach the store and the cluster.
type written struct{ times int }

func (w *written) Read(context.Context, string) (*abi.StoreResponse, error) {
	return &abi.StoreResponse{}, nil
}

func (w *written) Write(context.Context, *abi.StoreWrite) (*abi.StoreResponse, error) {
	w.times++
	return &abi.StoreResponse{}, nil
}

type patched struct{ *written }

func (patched) Read(context.Context, *abi.KubeRequest) ([]byte, int, error) { return nil, 0, nil }

func (p patched) Patch(context.Context, *abi.KubeRequest, *corev1.ObjectReference) error {
	p.times++
	return nil
}

// hostile attempts every kind of write, and answers as if it had not.
type hostile struct {
	host shadow.HostCaller
	url  string
}

func (h hostile) Ask(ctx context.Context, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "GET"} {
		for _, header := range []string{"Accept", "X-HTTP-Method-Override", "X_Method_Override", "X-Amz-Target"} {
			for _, path := range []string{"/", "/?_method=DELETE", "/?Action=TerminateInstances", "/?command=destroyVirtualMachine"} {
				request := &abi.HttpRequest{Method: method, Url: h.url + path, Headers: []*abi.HttpHeader{{Name: header, Value: "DELETE"}}, FollowRedirects: 3}
				if method != "GET" {
					request.Body = []byte("Action=TerminateInstances")
				}
				h.host.HostCall(ctx, abi.CapabilityHTTP, encode(&abi.HttpSendRequest{Requests: []*abi.HttpRequest{request}}))
			}
		}
	}
	h.host.HostCall(ctx, abi.CapabilityStore, encode(&abi.StoreRequest{Write: &abi.StoreWrite{}}))
	h.host.HostCall(ctx, abi.CapabilityKube, encode(&abi.KubeRequest{Resource: "nodes", Name: "n", Patch: &abi.KubePatch{Labels: map[string]string{"a": "b"}}}))
	h.host.HostCall(ctx, abi.CapabilityEvent, encode(&abi.EventRequest{Reason: "Written", Message: "x"}))
	h.host.HostCall(ctx, abi.CapabilityCache, encode(&abi.CacheRequest{Key: "k", Put: &abi.CacheValue{Value: []byte("v"), TtlMs: 1000}}))
	return abi.CodeOK, encode(&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}), nil
}

// The test has the real host calls and the real egress; an HTTP server is the cloud.
func TestAHostileModuleWritesNothingWhileItIsCompared(t *testing.T) {
	var mu sync.Mutex
	reads, writes := 0, []string{}
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet && r.URL.RawQuery == "" {
			reads++
			http.Redirect(w, r, "/?Action=TerminateInstances", http.StatusFound)
			return
		}
		writes = append(writes, r.Method+" "+r.URL.String())
	}))
	t.Cleanup(cloud.Close)
	grant, err := egress.ParseGrant(cloud.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	grant.CIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client, err := egress.New([]egress.Grant{grant}, egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	kept, events, cache := &written{}, record.NewFakeRecorder(10), hostfunc.NewCache(clock.RealClock{})
	host := shadow.Host(hostfunc.New(hostfunc.Options{Events: events, Cache: cache, Store: kept, Kube: patched{kept}, HTTP: client}))
	question := objectSample{nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}}.questions("c", func(op abi.Op) bool { return op == abi.OpInstanceExists })
	r := &shadow.Rehearsal{Candidate: hostile{host, cloud.URL}, Check: checkAnswer(addresses.Default), Concurrency: 1, OwnTime: time.Minute}
	report := r.Run(t.Context(), question)
	_, found := host.HostCall(t.Context(), abi.CapabilityCache, encode(&abi.CacheRequest{Key: "k"}))
	mu.Lock()
	defer mu.Unlock()
	if len(writes) > 0 || kept.times > 0 || len(events.Events) > 0 || len(found) > 0 {
		t.Errorf("the cloud has %q, the store and objects %d, Events %d, the cache %q", writes, kept.times, len(events.Events), found)
	}
	if reads == 0 || report.Requests != reads || report.Kept < 10 || report.Alone != 1 {
		t.Errorf("%d reads arrived; %+v", reads, report)
	}
	t.Logf("%d requests sent, %d writes kept back", report.Requests, report.Kept)
}

func TestQuestionsAreAboutTheNewestAndTheOldest(t *testing.T) {
	var nodes []*corev1.Node
	for i, name := range strings.Fields("a b c d e f gone") {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(i), 0)}}
		if name == "gone" {
			n.DeletionTimestamp = &metav1.Time{}
		}
		nodes = append(nodes, n)
	}
	s := objectSample{
		nodes:    newestAndOldest(nodes, func(n *corev1.Node) bool { return n.Name != "f" }),
		services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}},
		volumes:  []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}},
	}
	var got []string
	for _, q := range s.questions("c", func(op abi.Op) bool { return op != abi.OpInstanceMetadata }) {
		got = append(got, q.String())
	}
	want := "instance_exists e|list_instances|route_list|lb_get default/web|volume_labels pv|instance_exists a|instance_exists d|instance_exists b"
	if strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
}

func TestAnswersAreCheckedAsTheLoopsDo(t *testing.T) {
	metadata := func(zone string) abi.Message {
		return &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{ProviderId: "x://1", Zone: zone, Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"}}}}
	}
	for _, test := range []struct {
		op     abi.Op
		answer abi.Message
		want   string
	}{
		{abi.OpInstanceMetadata, metadata("a"), ""},
		{abi.OpInstanceMetadata, metadata("no label!"), "cannot be a label"},
		{abi.OpInstanceMetadata, &abi.InstanceMetadataResponse{}, "no metadata"},
		{abi.OpInstanceExists, &abi.InstanceExistsResponse{}, "unknown existence"},
		{abi.OpInstanceShutdown, &abi.InstanceShutdownResponse{}, "unknown power state"},
		{abi.OpListInstances, &abi.ListInstancesResponse{}, "done"},
		{abi.OpListInstances, &abi.ListInstancesResponse{Done: true, Instances: []*abi.Instance{{}}}, "no metadata"},
		{abi.OpRouteList, &abi.RouteListResponse{}, "done"}, {abi.OpRouteList, &abi.RouteListResponse{Done: true}, ""},
		{abi.OpLoadBalancerGet, &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS}, "invalid answer"},
		{abi.OpVolumeLabels, &abi.VolumeLabelsResponse{}, "done"}, {abi.OpLoadBalancerName, &abi.LoadBalancerNameResponse{Name: "a"}, ""},
	} {
		err := checkAnswer(addresses.Default)(test.op, encode(test.answer))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.op, err, test.want)
		}
	}
}

func TestSummaries(t *testing.T) {
	for want, got := range map[string]string{
		"12 questions of the host's own and 40 of the record: 52 answered the same":           summaryOf(shadow.Report{Questions: 52, Same: 52}, 12, nil, false),
		"there is nothing to ask about: no Node, no Service, no volume":                       summaryOf(shadow.Report{}, 0, nil, true),
		"2 questions of the host's own: 2 unknown: instance_exists n: it answers unavailable": summaryOf(shadow.Report{Questions: 2, Unknown: 2, Unknowns: []string{"instance_exists n: it answers unavailable"}}, 2, nil, false),
		"nothing was asked: context deadline exceeded":                                        summaryOf(shadow.Report{}, 0, context.DeadlineExceeded, true),
		"3 questions of the host's own: 1 answered, with nothing to compare with, 2 failed":   summaryOf(shadow.Report{Questions: 3, Alone: 1, Failed: 2}, 3, nil, false),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWhatACandidatePrintsWhileItIsComparedIsDropped(t *testing.T) {
	l := stubProviderLoader(t)
	g, err := l.Prepare(t.Context(), source.Bundle{Module: guest(t, `[]`)}, func(rollout.Phase) {})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := l.loaded[g].printer(&out)
	print := func(text string) {
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	print("loud ")
	loud := l.hush(g)
	print("hushed ")
	loud()
	print("loud again")
	if got := out.String(); got != "loud loud again" {
		t.Errorf("%q", got)
	}
}
