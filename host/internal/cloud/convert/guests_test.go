package convert_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
)

// TestAnswersOfTheGuests runs the tests of this repository's providers, those
// that cloud-provider-openstack's tables make as well, and looks at each answer
// in them as the manager does: what it refuses is a Service or a Node that waits
// for ever.
func TestAnswersOfTheGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"./static", "./openstack/...", "./example", "./faulty"},
		{"-tags", "cpo", "-run", "CPO", "./openstack"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"test", "-count=1"}, args)...)
		cmd.Dir = filepath.Join("..", "..", "..", "..", "guests")
		cmd.Env = append(os.Environ(), "SDKTEST_ANSWERS="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	policy, err := addresses.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for answer, test := range answers(t, dir) {
		op, text, _ := strings.Cut(answer, " ")
		data, err := hex.DecodeString(text)
		if err == nil {
			err = accept(op, data, policy)
		}
		if err != nil {
			t.Errorf("%s in %s: %v", op, test, err)
		}
		seen[op]++
	}
	t.Log(seen)
	for _, op := range []abi.Op{
		abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata, abi.OpListInstances, abi.OpLoadBalancerGet, abi.OpLoadBalancerName,
		abi.OpLoadBalancerEnsure, abi.OpRouteList, abi.OpVolumeLabels,
	} {
		if seen[op.String()] == 0 {
			t.Errorf("no answer to %s", op)
		}
	}
}

// answers are the different ones, with a test in which each came.
func answers(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.answers"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			fields := strings.SplitN(strings.TrimSpace(string(line)), " ", 3)
			if len(fields) != 3 {
				t.Fatalf("%s: %q", file, line)
			}
			all[fields[0]+" "+fields[1]] = fields[2]
		}
	}
	t.Logf("%d different answers", len(all))
	return all
}

// accept decodes and converts an answer as package provider does.
func accept(name string, data []byte, policy *addresses.Policy) error {
	op, _ := abi.ParseOp(name)
	switch op {
	case abi.OpInstanceMetadata:
		var m abi.InstanceMetadataResponse
		if err := wire.Unmarshal(data, &m); err != nil {
			return err
		}
		_, err := convert.InstanceMetadataAnswer(&m, policy)
		return err
	case abi.OpListInstances:
		return acceptList(data, policy)
	case abi.OpLoadBalancerGet:
		var m abi.LoadBalancerGetResponse
		if err := wire.Unmarshal(data, &m); err != nil || m.Existence == abi.Existence_EXISTENCE_DOES_NOT_EXIST {
			return err
		}
		_, err := convert.CloudLoadBalancerStatus(m.Status, policy)
		return err
	case abi.OpLoadBalancerEnsure:
		return acceptEnsure(data, policy)
	case abi.OpRouteList:
		var m abi.RouteListResponse
		if err := wire.Unmarshal(data, &m); err != nil {
			return err
		}
		_, refused, err := convert.CloudRoutes(m.Routes, policy)
		return errors.Join(append(refused, err)...)
	case abi.OpVolumeLabels:
		var m abi.VolumeLabelsResponse
		if err := wire.Unmarshal(data, &m); err != nil {
			return err
		}
		_, err := convert.CloudVolumeLabels(m.Labels)
		return err
	}
	return nil
}

func acceptList(data []byte, policy *addresses.Policy) error {
	var m abi.ListInstancesResponse
	if err := wire.Unmarshal(data, &m); err != nil {
		return err
	}
	for i, instance := range m.Instances {
		if instance.Metadata == nil { // it is asked about alone then
			continue
		}
		if _, err := convert.InstanceMetadata(instance.Metadata, policy); err != nil {
			return fmt.Errorf("instances[%d]: %w", i, err)
		}
	}
	return nil
}

func acceptEnsure(data []byte, policy *addresses.Policy) error {
	var m abi.LoadBalancerEnsureResponse
	if err := wire.Unmarshal(data, &m); err != nil {
		return err
	}
	status, err := convert.CloudLoadBalancerStatus(m.Status, policy)
	if err == nil && len(status.Ingress) == 0 {
		err = errors.New("it is done without an address")
	}
	return err
}
