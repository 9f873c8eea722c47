package convert

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// TestEveryTextOfAnAnswerIsDecided: a text that a guest answers is an address,
// a name or a network, which package addresses decides about, or it steers no
// traffic. Whoever adds a field to the ABI has to say here which.
func TestEveryTextOfAnAnswerIsDecided(t *testing.T) {
	const decided, compared, steersNothing = "addresses.Policy", "compared only", "steers nothing"
	want := map[string]string{
		"LoadBalancerStatus.ingress.ip":             decided,
		"LoadBalancerStatus.ingress.hostname":       decided,
		"LoadBalancerStatus.ingress.ip_mode":        steersNothing, // one of two
		"LoadBalancerStatus.ingress.ports.error":    steersNothing,
		"LoadBalancerStatus.ingress.ports.protocol": steersNothing, // one of three

		"InstanceMetadata.addresses.address": decided,
		"InstanceMetadata.provider_id":       steersNothing,
		"InstanceMetadata.instance_type":     steersNothing,
		"InstanceMetadata.zone":              steersNothing,
		"InstanceMetadata.region":            steersNothing,
		"InstanceMetadata.additional_labels": steersNothing, // upstream drops Kubernetes' own

		"Route.destination_cidr":              decided,
		"Route.target_node_addresses.address": compared,
		"Route.name":                          steersNothing,
		"Route.target_node":                   compared,

		"Instance.node_name":                    compared,
		"ListInstancesResponse.next_page_token": steersNothing,
		"LoadBalancerNameResponse.name":         steersNothing,
		"VolumeLabelsResponse.labels":           steersNothing,
	}
	var got []string
	for _, answer := range []any{
		abi.InstanceExistsResponse{}, abi.InstanceShutdownResponse{}, abi.InstanceMetadataResponse{}, abi.ListInstancesResponse{},
		abi.LoadBalancerGetResponse{}, abi.LoadBalancerNameResponse{}, abi.LoadBalancerEnsureResponse{},
		abi.RouteListResponse{}, abi.VolumeLabelsResponse{}, abi.Done{},
	} {
		got = append(got, textFields(reflect.TypeOf(answer), "")...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Compact(got)); diff != "" {
		t.Errorf("texts of answers (-decided +there are):\n%s", diff)
	}
}

// textFields are the paths of the fields of a message that hold text, or bytes.
// Metadata begins a path, and so does what stands in an answer itself.
func textFields(message reflect.Type, path string) (all []string) {
	for i := range message.NumField() {
		field := message.Field(i)
		if !field.IsExported() {
			continue
		}
		here := path + "." + snake(field.Name)
		if path == "" {
			here = message.Name() + "." + snake(field.Name)
		}
		inner := field.Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case inner.Kind() == reflect.Struct:
			if strings.HasSuffix(message.Name(), "Response") || inner == reflect.TypeFor[abi.InstanceMetadata]() {
				here = ""
			}
			all = append(all, textFields(inner, here)...)
		case inner.Kind() == reflect.String, inner.Kind() == reflect.Uint8, inner.Kind() == reflect.Map:
			all = append(all, here)
		}
	}
	return all
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}
