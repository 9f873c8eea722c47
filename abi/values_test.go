package abi_test

import (
	"math"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// valueVectors returns messages as they are in practice, and the edges of the
// types.
func valueVectors() []vector {
	return []vector{
		{Name: "error_detail/negative", Outcome: outcomeOK, Why: "a negative int64 has ten bytes",
			value: &abi.ErrorDetail{RetryAfterMs: -1}},
		{Name: "error_detail/min_int64", Outcome: outcomeOK,
			value: &abi.ErrorDetail{RetryAfterMs: math.MinInt64}},
		{Name: "error_detail/max_int64", Outcome: outcomeOK,
			value: &abi.ErrorDetail{RetryAfterMs: math.MaxInt64}},
		{Name: "error_detail/text", Outcome: outcomeOK, Why: "2, 3 and 4 byte characters, a NUL and a line end",
			value: &abi.ErrorDetail{Message: "zone Zürich → 東京 🌩 a\x00b\n"}},
		{Name: "describe_request/max_uint32", Outcome: outcomeOK,
			value: &abi.DescribeRequest{AbiVersion: math.MaxUint32}},
		{Name: "describe_request/empty_element", Outcome: outcomeOK, Why: "an empty element of a list is an element",
			value: &abi.DescribeRequest{AbiVersion: 1, HostFeatures: []string{"", "x"}}},
		{Name: "configure_request/any_bytes", Outcome: outcomeOK, Why: "bytes are not text",
			value: &abi.ConfigureRequest{Config: []byte{0, 0xff, 0xc3, 0x28}, ClusterName: "kubernetes"}},
		{Name: "configure_response/packed", Outcome: outcomeOK, Why: "repeated uint32 is packed",
			value: &abi.ConfigureResponse{Accepted: true, DisabledOps: []uint32{30, 31, 300}}},
		{Name: "service_port/negative_int32", Outcome: outcomeOK, Why: "a negative int32 is sign-extended to ten bytes",
			value: &abi.ServicePort{Port: -1, NodePort: math.MinInt32}},

		{Name: "instance_exists_response/exists", Outcome: outcomeOK,
			value: &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}},
		{Name: "instance_exists_response/does_not_exist", Outcome: outcomeOK, Why: "the host may delete the Node",
			value: &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}},
		{Name: "instance_exists_response/unknown_number", Outcome: outcomeRefused, Why: "a number that this ABI does not have is not an answer",
			value: &abi.InstanceExistsResponse{Existence: 3}},
		{Name: "instance_exists_response/negative_number", Outcome: outcomeRefused,
			value: &abi.InstanceExistsResponse{Existence: -2}},
		{Name: "instance_shutdown_response/on", Outcome: outcomeOK,
			value: &abi.InstanceShutdownResponse{State: abi.PowerState_POWER_STATE_ON}},
		{Name: "instance_shutdown_response/shutdown", Outcome: outcomeOK,
			value: &abi.InstanceShutdownResponse{State: abi.PowerState_POWER_STATE_SHUTDOWN}},
		{Name: "instance_metadata_response/not_mine", Outcome: outcomeOK, Why: "the Node is another controller's",
			value: &abi.InstanceMetadataResponse{NotMine: true}},
		{Name: "load_balancer_get_response/half_made", Outcome: outcomeOK, Why: "it has no address yet",
			value: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: &abi.LoadBalancerStatus{}}},
		{Name: "load_balancer_get_response/exists_without_status", Outcome: outcomeRefused, Why: "status is required when it exists",
			value: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS}},
		{Name: "load_balancer_get_response/does_not_exist", Outcome: outcomeOK,
			value: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}},
		{Name: "load_balancer_ensure_response/no_address_yet", Outcome: outcomeOK, Why: "an empty status is a status",
			value: &abi.LoadBalancerEnsureResponse{Status: &abi.LoadBalancerStatus{}}},
		{Name: "route_list_response/no_routes", Outcome: outcomeOK,
			value: &abi.RouteListResponse{Done: true}},
		{Name: "volume_labels_response/no_labels", Outcome: outcomeOK,
			value: &abi.VolumeLabelsResponse{Done: true}},
		{Name: "volume_labels_response/zone", Outcome: outcomeOK,
			value: &abi.VolumeLabelsResponse{Done: true, Labels: map[string]string{"topology.kubernetes.io/zone": "a"}}},
		{Name: "volume_labels_response/empty_label", Outcome: outcomeOK, Why: "an entry of a map has both fields, empty ones too",
			value: &abi.VolumeLabelsResponse{Done: true, Labels: map[string]string{"": ""}}},

		{Name: "instance_request/example", Outcome: outcomeOK,
			value: &abi.InstanceRequest{Node: &abi.Node{Name: "m1", ProviderId: "static://m1"}}},
		{Name: "instance_metadata_response/example", Outcome: outcomeOK,
			value: &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{
				ProviderId: "static://m1", InstanceType: "metal", Zone: "a", Region: "eu",
				Addresses: []*abi.NodeAddress{
					{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"},
					{Type: abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP, Address: "2001:db8::1"},
				},
			}}},
		{Name: "http_send_request/example", Outcome: outcomeOK,
			value: &abi.HttpSendRequest{Requests: []*abi.HttpRequest{
				{Method: "GET", Url: "https://api.example.com/v1/servers?name=m1", Credential: "api-token"},
			}}},
		{Name: "http_send_response/one_failed", Outcome: outcomeOK,
			value: &abi.HttpSendResponse{Results: []*abi.HttpResult{
				{Response: &abi.HttpResponse{Status: 200, Body: []byte("[]")}},
				{Code: uint32(abi.CodeDenied), Error: &abi.ErrorDetail{Message: "no grant"}},
			}}},
		{Name: "cache_request/read", Outcome: outcomeOK, Why: "no put: read",
			value: &abi.CacheRequest{Key: "servers"}},
		{Name: "cache_request/put_nothing", Outcome: outcomeOK, Why: "a put that is empty is there",
			value: &abi.CacheRequest{Key: "servers", Put: &abi.CacheValue{}}},
		{Name: "store_request/write_nothing", Outcome: outcomeOK, Why: "a write that is empty is a write, not a read",
			value: &abi.StoreRequest{Write: &abi.StoreWrite{}}},
		{Name: "kube_request/all_nodes", Outcome: outcomeOK, Why: "no cursor: from the beginning",
			value: &abi.KubeRequest{Resource: "nodes"}},
		{Name: "kube_request/patch_nothing", Outcome: outcomeOK, Why: "a patch that is empty is a patch, not a read",
			value: &abi.KubeRequest{Resource: "nodes", Name: "m1", Patch: &abi.KubePatch{}}},
		{Name: "kube_response/nothing_new", Outcome: outcomeOK, Why: "there is always a cursor",
			value: &abi.KubeResponse{Cursor: []byte{1, 2, 3}}},
	}
}

// laxVectors are bytes that no encoder has to write and every decoder reads.
func laxVectors() []vector {
	return []vector{
		{Name: "lax/unknown_varint", Message: "Done", Hex: "080178ffff03", Outcome: outcomeOK, Why: "unknown fields are ignored"},
		{Name: "lax/unknown_bytes", Message: "Done", Hex: "0801" + "7a02ffff", Outcome: outcomeOK, Why: "unknown bytes need not be text"},
		{Name: "lax/unknown_fixed32", Message: "Done", Hex: "0801" + "7d01020304", Outcome: outcomeOK},
		{Name: "lax/unknown_fixed64", Message: "Done", Hex: "0801" + "790102030405060708", Outcome: outcomeOK},
		{Name: "lax/unknown_group", Message: "Done", Hex: "0801" + "7b08017c", Outcome: outcomeOK, Why: "proto3 has no groups, but they can be skipped"},
		{Name: "lax/unknown_groups_nested", Message: "Done", Hex: "0801" + "7b7b7b7c7c7c", Outcome: outcomeOK},
		{Name: "lax/unknown_largest_number", Message: "Done", Hex: "0801" + "f8ffffff0f01", Outcome: outcomeOK, Why: "field 536870911"},
		{Name: "lax/long_varint", Message: "Done", Hex: "08818000", Outcome: outcomeOK, Why: "a varint may have more bytes than it needs, up to ten"},
		{Name: "lax/long_tag", Message: "Done", Hex: "888000" + "01", Outcome: outcomeOK},
		{Name: "lax/bool_of_two", Message: "Done", Hex: "0802", Outcome: outcomeOK, Why: "every number but 0 is true"},
		{Name: "lax/last_scalar_wins", Message: "InstanceExistsResponse", Hex: "08010802", Outcome: outcomeOK},
		{Name: "lax/zero_is_written", Message: "ErrorDetail", Hex: "0a001000", Outcome: outcomeOK, Why: "a field with its default value may be there"},
		{Name: "lax/order", Message: "ErrorDetail", Hex: "1001" + "0a0161", Outcome: outcomeOK, Why: "fields may come in any order"},
		{Name: "lax/messages_merge", Message: "InstanceMetadataResponse", Hex: "0a03220161" + "0a032a0162", Outcome: outcomeOK, Why: "a message that comes twice is merged"},
		{Name: "lax/unpacked", Message: "ConfigureResponse", Hex: "0801" + "181e" + "181f", Outcome: outcomeOK, Why: "a packed list may come unpacked"},
		{Name: "lax/packed_in_parts", Message: "ConfigureResponse", Hex: "0801" + "1a011e" + "1a011f", Outcome: outcomeOK},
		{Name: "lax/map_key_only", Message: "VolumeLabelsResponse", Hex: "0a030a0161" + "1001", Outcome: outcomeOK, Why: "a missing value is empty"},
		{Name: "lax/map_empty_entry", Message: "VolumeLabelsResponse", Hex: "0a00" + "1001", Outcome: outcomeOK, Why: "an entry with empty key and value"},
		{Name: "lax/map_value_first", Message: "VolumeLabelsResponse", Hex: "0a0612016" + "20a0161" + "1001", Outcome: outcomeOK},
		{Name: "lax/map_last_wins", Message: "VolumeLabelsResponse", Hex: "0a060a0161120162" + "0a060a0161120163" + "1001", Outcome: outcomeOK},
		{Name: "lax/map_two_keys", Message: "VolumeLabelsResponse", Hex: "0a060a0162120162" + "0a060a0161120161" + "1001", Outcome: outcomeOK, Why: "entries of a map come in any order"},
		{Name: "lax/int32_of_five_bytes", Message: "ServicePort", Hex: "20ffffffff0f", Outcome: outcomeOK, Why: "the upper half of an int32 is cut off: -1"},
		{Name: "lax/uint32_cut", Message: "NodeSnapshot", Hex: "08818080808001", Outcome: outcomeOK, Why: "the upper half of a uint32 is cut off"},
	}
}

// malformedVectors are refused by the host, and by a guest that gets them.
func malformedVectors() []vector {
	all := []vector{
		{Name: "tag_only", Message: "Done", Hex: "08"},
		{Name: "tag_truncated", Message: "Done", Hex: "80"},
		{Name: "varint_truncated", Message: "Done", Hex: "0880"},
		{Name: "varint_of_eleven_bytes", Message: "Done", Hex: "08" + "8080808080808080808001"},
		{Name: "varint_over_64_bits", Message: "ErrorDetail", Hex: "10" + "ffffffffffffffffff7f", OthersAccept: true, Why: "ten bytes hold more than 64 bits"},
		{Name: "tag_of_eleven_bytes", Message: "Done", Hex: "8880808080808080808001" + "01"},
		{Name: "length_truncated", Message: "ErrorDetail", Hex: "0a80"},
		{Name: "length_beyond_end", Message: "ErrorDetail", Hex: "0a0361"},
		{Name: "length_max_int32", Message: "ErrorDetail", Hex: "0affffffff07"},
		{Name: "length_max_uint32", Message: "ErrorDetail", Hex: "0affffffff0f"},
		{Name: "length_2_to_the_32", Message: "ErrorDetail", Hex: "0a8080808010", Why: "a decoder that cuts lengths to 32 bits reads an empty string"},
		{Name: "length_negative", Message: "ErrorDetail", Hex: "0affffffffffffffffff01", Why: "-1 as int64"},
		{Name: "length_min_int64", Message: "ErrorDetail", Hex: "0a80808080808080808001"},
		{Name: "length_wraps_around", Message: "InstanceRequest", Hex: "0a060affffffff07", Why: "offset and length overflow 32 bits together"},
		{Name: "nested_beyond_its_message", Message: "InstanceRequest", Hex: "0a030a05616263" + "6465", Why: "the string ends behind the message it is in"},
		{Name: "nested_truncated", Message: "InstanceRequest", Hex: "0a020a05"},
		{Name: "packed_truncated", Message: "ConfigureResponse", Hex: "1a0180"},
		{Name: "map_entry_truncated", Message: "VolumeLabelsResponse", Hex: "0a020a05"},
		{Name: "wrong_wire_type_varint", Message: "ErrorDetail", Hex: "0801", OthersAccept: true, Why: "message is a string"},
		{Name: "wrong_wire_type_bytes", Message: "Done", Hex: "0a0101", OthersAccept: true, Why: "done is a bool"},
		{Name: "wrong_wire_type_fixed32", Message: "Done", Hex: "0d01000000", OthersAccept: true},
		{Name: "wrong_wire_type_fixed64", Message: "ErrorDetail", Hex: "110100000000000000", OthersAccept: true},
		{Name: "wrong_wire_type_group", Message: "InstanceRequest", Hex: "0b0c", OthersAccept: true, Why: "node is a message, not a group"},
		{Name: "wrong_wire_type_in_list", Message: "RouteListResponse", Hex: "0801", OthersAccept: true},
		{Name: "wire_type_6", Message: "Done", Hex: "0e"},
		{Name: "wire_type_7_unknown_field", Message: "Done", Hex: "7f"},
		{Name: "field_0", Message: "Done", Hex: "0001"},
		{Name: "field_2_to_the_29", Message: "Done", Hex: "808080801001", Why: "field numbers have 29 bits"},
		{Name: "field_1_plus_2_to_the_32", Message: "Done", Hex: "888080808002" + "01", Why: "a decoder that cuts numbers to 32 bits reads done = true"},
		{Name: "group_unclosed", Message: "Done", Hex: "0801" + "7b"},
		{Name: "group_not_opened", Message: "Done", Hex: "0801" + "7c"},
		{Name: "group_truncated_inside", Message: "Done", Hex: "0801" + "7b0a05"},
		{Name: "unknown_truncated", Message: "Done", Hex: "0801" + "7a05ff"},
		{Name: "unknown_fixed64_truncated", Message: "Done", Hex: "0801" + "7901020304"},
		{Name: "utf8_alone", Message: "ErrorDetail", Hex: "0a01ff"},
		{Name: "utf8_truncated", Message: "ErrorDetail", Hex: "0a02e6b1"},
		{Name: "utf8_overlong", Message: "ErrorDetail", Hex: "0a02c0af"},
		{Name: "utf8_surrogate", Message: "ErrorDetail", Hex: "0a03eda080"},
		{Name: "utf8_in_list", Message: "ConfigureResponse", Hex: "0801" + "2201ff"},
		{Name: "utf8_in_map_key", Message: "VolumeLabelsResponse", Hex: "0a030a01ff" + "1001"},
		{Name: "utf8_in_map_value", Message: "VolumeLabelsResponse", Hex: "0a060a01611201ff" + "1001"},
		{Name: "utf8_nested", Message: "InstanceMetadataResponse", Hex: "0a032201ff"},
		{Name: "text_instead_of_message", Message: "InstanceExistsResponse", Hex: "7b22657869737473223a747275657d", Why: "JSON"},
	}
	for i := range all {
		all[i].Name = "malformed/" + all[i].Name
		all[i].Outcome = outcomeMalformed
	}
	return all
}
