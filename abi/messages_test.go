package abi_test

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// messages returns an empty one of each message of ccm_v1.proto, in its order.
func messages() []abi.Message {
	return []abi.Message{
		new(abi.ErrorDetail),
		new(abi.DescribeRequest),
		new(abi.DescribeResponse),
		new(abi.ConfigureRequest),
		new(abi.ConfigureResponse),
		new(abi.ProbeRequest),
		new(abi.ProbeResponse),
		new(abi.NodeAddress),
		new(abi.Node),
		new(abi.InstanceRequest),
		new(abi.InstanceExistsResponse),
		new(abi.InstanceShutdownResponse),
		new(abi.InstanceMetadata),
		new(abi.InstanceMetadataResponse),
		new(abi.ListInstancesRequest),
		new(abi.Instance),
		new(abi.ListInstancesResponse),
		new(abi.ServicePort),
		new(abi.PortStatus),
		new(abi.LoadBalancerIngress),
		new(abi.LoadBalancerStatus),
		new(abi.Service),
		new(abi.NodeSnapshot),
		new(abi.LoadBalancerRequest),
		new(abi.LoadBalancerGetResponse),
		new(abi.LoadBalancerNameResponse),
		new(abi.LoadBalancerEnsureResponse),
		new(abi.Done),
		new(abi.Route),
		new(abi.RouteListRequest),
		new(abi.RouteListResponse),
		new(abi.RouteCreateRequest),
		new(abi.RouteDeleteRequest),
		new(abi.Volume),
		new(abi.VolumeLabelsRequest),
		new(abi.VolumeLabelsResponse),
		new(abi.LogRequest),
		new(abi.KeyValue),
		new(abi.EventRequest),
		new(abi.NodesRequest),
		new(abi.NodesResponse),
		new(abi.CacheRequest),
		new(abi.CacheValue),
		new(abi.CacheResponse),
		new(abi.StoreEntry),
		new(abi.StoreRequest),
		new(abi.StoreWrite),
		new(abi.StoreResponse),
		new(abi.TickRequest),
		new(abi.KubeRequest),
		new(abi.KubePatch),
		new(abi.KubeObject),
		new(abi.KubeResponse),
		new(abi.HttpHeader),
		new(abi.HttpRequest),
		new(abi.HttpResponse),
		new(abi.HttpResult),
		new(abi.HttpSendRequest),
		new(abi.HttpSendResponse),
		new(abi.SecretValue),
		new(abi.SignRequest),
		new(abi.SignResponse),
	}
}

// fullVectors returns each message empty and with every field set, so that a
// new field has a vector by itself.
func fullVectors() []vector {
	var all []vector
	for _, m := range messages() {
		name := snake(reflect.TypeOf(m).Elem().Name())
		empty := vector{Name: name + "/empty", Outcome: outcomeOK, value: m}
		if why, refused := refusedWhenEmpty[name]; refused {
			empty.Outcome, empty.Why = outcomeRefused, why
		}
		full := reflect.New(reflect.TypeOf(m).Elem())
		fill(full.Elem())
		whole := vector{Name: name + "/full", Outcome: outcomeOK, value: full.Interface().(abi.Message)}
		if why, refused := refusedWhenFull[name]; refused {
			whole.Outcome, whole.Why = outcomeRefused, why
		}
		all = append(all, empty, whole)
	}
	return all
}

// refusedWhenEmpty are the answers whose empty form says nothing.
var refusedWhenEmpty = map[string]string{
	"describe_response":             "a guest has a name",
	"configure_response":            "accepted is not true",
	"probe_response":                "ready is not true",
	"instance_exists_response":      "neither that it exists nor that it does not",
	"instance_shutdown_response":    "neither on nor shut down",
	"instance_metadata_response":    "metadata is missing, and not_mine is not said",
	"list_instances_response":       "done is not true",
	"load_balancer_get_response":    "neither that it exists nor that it does not",
	"load_balancer_name_response":   "a load balancer has a name",
	"load_balancer_ensure_response": "status is missing",
	"done":                          "done is not true",
	"route_list_response":           "done is not true: it does not mean that there are no routes",
	"sign_response":                 "done is not true",
	"volume_labels_response":        "done is not true: it does not mean that there are no labels",
}

// refusedWhenFull are the answers of which two parts exclude each other.
var refusedWhenFull = map[string]string{
	"instance_metadata_response": "it has metadata, and says not_mine",
}

// fill sets every exported field: text to the field's name, numbers to 1,
// lists to two elements, maps to one entry.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			v.Field(i).Set(filled(f.Type, f.Name))
		}
	}
}

func filled(t reflect.Type, name string) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(t.Elem(), name), filled(t.Elem(), name)))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key(), "key"), filled(t.Elem(), name))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem())
	default:
		panic("fill does not know " + t.String())
	}
	return v
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
