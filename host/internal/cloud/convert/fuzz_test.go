package convert

import (
	"encoding/json"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// FuzzAnswers feeds what a hostile guest may write through the decoder: it
// must never panic, and what passes must be what the API server takes.
func FuzzAnswers(f *testing.F) {
	seed := &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1", Ports: []*abi.PortStatus{{Port: 80, Protocol: "TCP"}}}}}
	data := make([]byte, seed.SizeVT())
	if _, err := seed.MarshalToSizedBufferVT(data); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte{0x10, 0x01}) // not_mine, without metadata
	f.Fuzz(func(t *testing.T, data []byte) {
		var status abi.LoadBalancerStatus
		if status.UnmarshalVT(data) == nil {
			fuzzStatus(t, &status)
		}
		var metadata abi.InstanceMetadata
		if metadata.UnmarshalVT(data) == nil {
			if got, err := InstanceMetadata(&metadata, addresses.Default()); (got == nil) == (err == nil) {
				t.Fatalf("metadata %v with error %v", got, err)
			}
		}
		var answer abi.InstanceMetadataResponse
		if answer.UnmarshalVT(data) == nil {
			if got, err := InstanceMetadataAnswer(&answer, addresses.Default()); (got == nil && err == nil) != (answer.NotMine && answer.Metadata == nil) {
				t.Fatalf("%v: metadata %v with error %v", &answer, got, err)
			}
		}
		var routes abi.RouteListResponse
		if routes.UnmarshalVT(data) == nil {
			_, _, _ = CloudRoutes(routes.Routes, addresses.Default())
		}
		var labels abi.VolumeLabelsResponse
		if labels.UnmarshalVT(data) == nil {
			_, _ = CloudVolumeLabels(labels.Labels)
		}
	})
}

func fuzzStatus(t *testing.T, in *abi.LoadBalancerStatus) {
	got, err := CloudLoadBalancerStatus(in, addresses.Default())
	if err != nil {
		return
	}
	for _, ingress := range got.Ingress {
		if (ingress.IP == "") != (ingress.IPMode == nil) {
			t.Fatalf("ip %q with mode %v", ingress.IP, ingress.IPMode)
		}
		if _, err := netip.ParseAddr(ingress.IP); ingress.IP != "" && err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzObjects feeds objects as an API server may hand them out.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"spec":{"csi":{"driver":"d"},"nodeAffinity":{"required":{"nodeSelectorTerms":[{}]}},"capacity":{"storage":"1Gi"}}}`))
	f.Add([]byte(`{"spec":{"ports":[{}],"sessionAffinityConfig":{"clientIP":{}}},"status":{"loadBalancer":{"ingress":[{}]}}}`))
	f.Add([]byte(`{"status":{"addresses":[{"type":"InternalIP"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var node corev1.Node
		if json.Unmarshal(data, &node) == nil {
			Node(&node)
		}
		var service corev1.Service
		if json.Unmarshal(data, &service) == nil {
			Service(&service)
		}
		var pv corev1.PersistentVolume
		if json.Unmarshal(data, &pv) == nil {
			if _, err := Volume(&pv); err != nil {
				t.Fatal(err)
			}
		}
	})
}
