package listing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
)

// assemble adds pages until one fails.
func assemble(b bounds, pages ...*abi.ListInstancesResponse) (*snapshot, error) {
	a := newAssembly(b, addresses.Default())
	for _, page := range pages {
		if _, err := a.add(page); err != nil {
			return nil, err
		}
	}
	return a.finish(time.Now()), nil
}

func pageOf(next string, instances ...*abi.Instance) *abi.ListInstancesResponse {
	return &abi.ListInstancesResponse{Instances: instances, NextPageToken: next, Done: true}
}

func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	heavy := server(1)
	for n := range convert.MaxLabels - 1 {
		heavy.Metadata.AdditionalLabels[fmt.Sprintf("%s-%d", long(40), n)] = long(60)
	}
	for name, test := range map[string]struct {
		pages []*abi.ListInstancesResponse
		want  string // "" for no error
	}{
		"within":                   {[]*abi.ListInstancesResponse{pageOf("1", server(1)), pageOf("2"), pageOf("", server(2), server(3))}, ""},
		"nothing":                  {[]*abi.ListInstancesResponse{pageOf("")}, ""},
		"too many pages":           {[]*abi.ListInstancesResponse{pageOf("1"), pageOf("2"), pageOf("3")}, "more than 3 pages"},
		"too many instances":       {[]*abi.ListInstancesResponse{pageOf("", server(1), server(2), server(3), server(4))}, "instances[3]: there are more than 3"},
		"too many on two pages":    {[]*abi.ListInstancesResponse{pageOf("1", server(1), server(2)), pageOf("", server(3), server(4))}, "instances[1]: there are more than 3"},
		"too many bytes":           {[]*abi.ListInstancesResponse{pageOf("", heavy, heavy)}, "instances[1]: the listing takes more than 40000 bytes"},
		"too many bytes of tokens": {[]*abi.ListInstancesResponse{pageOf("", heavy), pageOf(long(maxTokenBytes))}, ""},
		"a token too long":         {[]*abi.ListInstancesResponse{pageOf(long(maxTokenBytes + 1))}, "next_page_token has 4097 bytes, at most 4096"},
		"a token again":            {[]*abi.ListInstancesResponse{pageOf("1"), pageOf("1")}, "next_page_token repeats an earlier one"},
		"not done":                 {[]*abi.ListInstancesResponse{{Instances: []*abi.Instance{server(1)}}}, "does not say done"},
		"nil":                      {[]*abi.ListInstancesResponse{pageOf("", nil)}, "instances[0]: it has no metadata"},
		"no metadata":              {[]*abi.ListInstancesResponse{pageOf("", server(1), &abi.Instance{NodeName: "n1"})}, "instances[1]: it has no metadata"},
		"a name too long":          {[]*abi.ListInstancesResponse{pageOf("", &abi.Instance{NodeName: long(254), Metadata: server(1).Metadata})}, "node_name has 254 bytes"},
		"an ID too long": {[]*abi.ListInstancesResponse{pageOf("", &abi.Instance{Metadata: &abi.InstanceMetadata{ProviderId: long(1025)}})},
			"provider_id has 1025 bytes, at most 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := assemble(bounds{pages: 3, instances: 3, bytes: 40_000}, test.pages...)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTheDefaultBoundsHoldALargeCloud(t *testing.T) {
	var pages []*abi.ListInstancesResponse
	for n := range 200 {
		page := pageOf(fmt.Sprint(n))
		for k := range 100 {
			page.Instances = append(page.Instances, server(n*100+k))
		}
		pages = append(pages, page)
	}
	pages[199].NextPageToken = ""
	s, err := assemble(defaultBounds(), pages...)
	if err != nil || s.instances != 20_000 || s.find(node(19_999)) == nil {
		t.Fatal(s, err)
	}
	pages[199].NextPageToken = "more"
	if _, err = assemble(defaultBounds(), append(pages, pageOf("", server(1)))...); err == nil || !strings.Contains(err.Error(), "more than 20000") {
		t.Errorf("one more: %v", err)
	}
}

// FuzzPages assembles whatever pages a guest can encode, and checks that the
// result is within its bounds and finds only what was said once.
func FuzzPages(f *testing.F) {
	add := func(pages ...*abi.ListInstancesResponse) {
		var data []byte
		for _, p := range pages {
			encoded := make([]byte, p.SizeVT())
			if _, err := p.MarshalToSizedBufferVT(encoded); err != nil {
				f.Fatal(err)
			}
			data = append(append(data, byte(len(encoded)>>8), byte(len(encoded))), encoded...)
		}
		f.Add(data)
	}
	add(pageOf("1", server(1), server(2)), pageOf("", server(3)))
	add(pageOf("1", server(1)), pageOf("1", server(1)))
	add(pageOf("", &abi.Instance{NodeName: "n"}))
	add(pageOf("", &abi.Instance{NodeName: "n", Metadata: &abi.InstanceMetadata{}}, &abi.Instance{NodeName: "n", Metadata: server(1).Metadata}))
	f.Fuzz(func(t *testing.T, data []byte) {
		limit := bounds{pages: 8, instances: 16, bytes: 16 << 10}
		a := newAssembly(limit, addresses.Default())
		ids, names := map[string]int{}, map[string]int{}
		for len(data) >= 2 {
			size := min(int(data[0])<<8|int(data[1]), len(data)-2)
			var page abi.ListInstancesResponse
			if page.UnmarshalVT(data[2:2+size]) != nil {
				return
			}
			data = data[2+size:]
			next, err := a.add(&page)
			if err != nil {
				return
			}
			for _, i := range page.Instances {
				ids[i.Metadata.ProviderId]++
				names[i.NodeName]++
			}
			if next == "" {
				break
			}
		}
		s := a.finish(time.Now())
		if s.pages > limit.pages || s.instances > limit.instances || a.bytes > limit.bytes {
			t.Fatalf("%d pages, %d instances, %d bytes", s.pages, s.instances, a.bytes)
		}
		check(t, s, ids, names)
	})
}

func check(t *testing.T, s *snapshot, ids, names map[string]int) {
	t.Helper()
	for id, n := range ids {
		i := s.find(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
		if found := i != nil; found != (id != "" && n == 1) {
			t.Errorf("ID %q, which %d have, is found: %v", id, n, found)
		}
		if i != nil && (i.id != id || i.metadata != nil && i.metadata.ProviderID != id) {
			t.Errorf("ID %q finds %+v", id, i)
		}
	}
	for name, n := range names {
		i := s.find(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if i != nil && (name == "" || n != 1 || ids[i.id] != 1 && i.id != "") {
			t.Errorf("name %q, which %d have, finds %+v", name, n, i)
		}
		if i := s.find(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "another"}}); i != nil && i.id != "another" {
			t.Errorf("name %q of a node with another ID finds %+v", name, i)
		}
	}
}
