package wire_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// What is small on the wire and large in memory is refused before it takes the
// memory.
func TestUnmarshalTakesAboutAsMuchAsItReads(t *testing.T) {
	const size = abi.MaxHostCallBytes
	inside := func(tag byte, unit string) []byte {
		body := bytes.Repeat([]byte(unit), (size-8)/len(unit))
		head := []byte{tag, byte(len(body)) | 0x80, byte(len(body)>>7) | 0x80, byte(len(body)>>14) | 0x80, byte(len(body) >> 21)}
		return append(head, body...)
	}
	for name, test := range map[string]struct {
		message abi.Message
		data    []byte
	}{
		"packed numbers":     {new(abi.NodesRequest), inside(0x22, "\x01")},
		"packed, described":  {new(abi.ConfigureResponse), inside(0x2a, "\x01")},
		"numbers":            {new(abi.NodesRequest), bytes.Repeat([]byte{0x20, 1}, size/2)},
		"messages":           {new(abi.HttpSendRequest), bytes.Repeat([]byte{0x0a, 0}, size/2)},
		"messages in one":    {new(abi.HttpSendRequest), inside(0x0a, "\x1a\x00")},
		"texts":              {new(abi.StoreRequest), inside(0x0a, "\x1a\x00")},
		"texts of 20":        {new(abi.StoreRequest), inside(0x0a, "\x1a\x14twenty bytes of text")},
		"entries of a map":   {new(abi.VolumeLabelsResponse), bytes.Repeat([]byte{0x0a, 0}, size/2)},
		"other entries":      {new(abi.VolumeLabelsResponse), labels(size)},
		"routes":             {new(abi.RouteListResponse), bytes.Repeat([]byte{0x0a, 0}, size/2)},
		"unknown fields":     {new(abi.StoreRequest), bytes.Repeat([]byte{0x7a, 0x40, 64: 0}, size/66)},
		"many small unknown": {new(abi.StoreRequest), bytes.Repeat([]byte{0x78, 1}, size/2)},
		"a body":             {new(abi.CacheRequest), inside(0x12, "\x0a\x04body")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{len(test.data), len(test.data) / 16, len(test.data) / 256} {
				taken, err := allocated(func() error { return wire.UnmarshalWithin(test.data[:n], test.message, wire.MaxRequestOverhead) })
				// The collector rounds sizes up, and lists are grown twice.
				if most := 2*uint64(n+wire.MaxRequestOverhead) + 64<<10; taken > most {
					t.Errorf("%d bytes took %d, more than %d (error %v)", n, taken, most, err)
				}
			}
			taken, err := allocated(func() error { return wire.Unmarshal(test.data, test.message) })
			if most := 2*uint64(len(test.data)+24<<20) + 64<<10; taken > most {
				t.Errorf("as a response %d bytes took %d, more than %d (error %v)", len(test.data), taken, most, err)
			}
		})
	}
}

func labels(size int) []byte {
	var out bytes.Buffer
	for i := 0; out.Len() < size; i++ {
		fmt.Fprintf(&out, "\x0a\x09\x0a\x07%07d", i)
	}
	return out.Bytes()
}

// allocated returns how many bytes a function allocates.
func allocated(f func() error) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// Messages that clouds and clusters have are far from the bounds: large ones of
// each kind decode, as does a request of every host call at its limit.
func TestUnmarshalTakesWhatIsUsual(t *testing.T) {
	routes, instances, requests := &abi.RouteListResponse{Done: true}, &abi.ListInstancesResponse{Done: true}, &abi.HttpSendRequest{}
	for i := range 5000 {
		address := []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"}, {Type: abi.AddressType_ADDRESS_TYPE_HOSTNAME, Address: "n"}}
		routes.Routes = append(routes.Routes, &abi.Route{Name: fmt.Sprint("r", i), TargetNode: "n", TargetNodeAddresses: address, DestinationCidr: "10.1.0.0/24"})
		instances.Instances = append(instances.Instances, &abi.Instance{NodeName: fmt.Sprint("node-", i), State: 1, Metadata: &abi.InstanceMetadata{
			ProviderId: fmt.Sprint("x://", i), InstanceType: "m", Zone: "a", Region: "b", Addresses: address, AdditionalLabels: map[string]string{"example.com/a": "b"},
		}})
	}
	for range abi.MaxHTTPBatch {
		request := &abi.HttpRequest{Method: "GET", Url: "https://x.test/"}
		for range 128 {
			request.Headers = append(request.Headers, &abi.HttpHeader{Name: "A", Value: "b"})
		}
		requests.Requests = append(requests.Requests, request)
	}
	write := &abi.StoreWrite{Version: "v"}
	for i := range 4096 {
		write.Put = append(write.Put, &abi.StoreEntry{Key: fmt.Sprint(i), Value: []byte("v")})
		write.Delete = append(write.Delete, fmt.Sprint("old", i))
	}
	for name, test := range map[string]struct {
		from, to abi.Message
		overhead int
	}{
		"routes":    {routes, &abi.RouteListResponse{}, 0},
		"instances": {instances, &abi.ListInstancesResponse{}, 0},
		"http_send": {requests, &abi.HttpSendRequest{}, wire.MaxRequestOverhead},
		"store":     {&abi.StoreRequest{Write: write}, &abi.StoreRequest{}, wire.MaxRequestOverhead},
	} {
		t.Run(name, func(t *testing.T) {
			data := make([]byte, test.from.SizeVT())
			if _, err := test.from.MarshalToSizedBufferVT(data); err != nil {
				t.Fatal(err)
			}
			err := wire.Unmarshal(data, test.to)
			if test.overhead > 0 {
				err = wire.UnmarshalWithin(data, test.to, test.overhead)
			}
			if err != nil {
				t.Errorf("%d bytes: %v", len(data), err)
			}
		})
	}
}

// The quick look at a small message is right for every message of the ABI.
func TestNoFieldTakesMoreForItsBytes(t *testing.T) {
	for _, m := range []abi.Message{
		new(abi.HttpSendRequest), new(abi.RouteListResponse), new(abi.ListInstancesResponse), new(abi.NodesResponse),
		new(abi.LoadBalancerRequest), new(abi.VolumeLabelsRequest), new(abi.InstanceRequest), new(abi.SignRequest), new(abi.SignResponse),
	} {
		for _, tag := range []byte{0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x32} {
			// As large as is not looked at any closer.
			data := bytes.Repeat([]byte{tag, 0}, wire.MaxRequestOverhead/wire.MaxOverheadPerByte/2)
			taken, err := allocated(func() error { return wire.UnmarshalWithin(data, m, wire.MaxRequestOverhead) })
			if taken > 2*wire.MaxRequestOverhead {
				t.Errorf("%T: %d bytes of tag %#x took %d (error %v)", m, len(data), tag, taken, err)
			}
		}
	}
}

func TestTheErrorOfTooMuchSaysWhatToDo(t *testing.T) {
	err := wire.Unmarshal(bytes.Repeat([]byte{0x0a, 0}, 1<<20), new(abi.RouteListResponse))
	if err == nil || !strings.Contains(err.Error(), "RouteListResponse: its parts take much more memory than its bytes, send less at once") {
		t.Errorf("error %v", err)
	}
}

// Whatever the bytes are: what they take is about what was allowed.
func FuzzOverhead(f *testing.F) {
	f.Add(uint8(0), bytes.Repeat([]byte{0x0a, 0}, 4096))
	f.Add(uint8(1), bytes.Repeat([]byte{0x12, 2, 0x1a, 0}, 4096))
	f.Add(uint8(2), bytes.Repeat([]byte{0x0a, 4, 0x0a, 0, 0x12, 0}, 4096))
	f.Add(uint8(3), append([]byte{0x22, 0x80, 0x20}, make([]byte, 4096)...))
	f.Add(uint8(4), bytes.Repeat([]byte{0x0b, 0x0c}, 4096))
	messages := func() []abi.Message {
		return []abi.Message{
			new(abi.HttpSendRequest), new(abi.StoreRequest), new(abi.ListInstancesResponse), new(abi.NodesRequest),
			new(abi.LogRequest), new(abi.CacheRequest), new(abi.RouteListResponse), new(abi.LoadBalancerRequest), new(abi.SignRequest),
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		const overhead = 32 << 10
		all := messages()
		m := all[int(which)%len(all)]
		taken, err := allocated(func() error { return wire.UnmarshalWithin(data, m, overhead) })
		// And what the check itself takes: the schemas of the messages.
		if most := 2*uint64(len(data)+overhead) + 64<<10; taken > most {
			t.Errorf("%T: %d bytes took %d, more than %d (error %v)", m, len(data), taken, most, err)
		}
	})
}
