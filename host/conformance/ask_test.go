package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// asked is the answer to a question about the test cloud, in JSON.
func asked(t *testing.T, o conformance.Options, q conformance.Question) (*conformance.Answer, string) {
	t.Helper()
	a, err := conformance.Ask(t.Context(), o, q)
	if err != nil {
		t.Fatalf("%s: %v", q.Op, err)
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(text)
}

// Every op can run, lists its requests, and has a readable answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	o := widgetOptions(t, "")
	for _, test := range []struct {
		question conformance.Question
		want     []string
	}{
		{conformance.Question{Op: abi.OpProbe}, []string{`"code":"ok"`, "GET "}},
		{conformance.Question{Op: abi.OpInstanceExists, Object: "worker-2"}, []string{"/servers/worker-2 -", `"response":"EXISTENCE_EXISTS"`}},
		{conformance.Question{Op: abi.OpInstanceExists, Object: "conformance-no-such-node"}, []string{`"response":"EXISTENCE_DOES_NOT_EXIST"`}},
		{conformance.Question{Op: abi.OpInstanceShutdown}, []string{`"response":"POWER_STATE_`}},
		{conformance.Question{Op: abi.OpInstanceMetadata}, []string{`"providerId":"widgets://worker-1"`, `"type":"ADDRESS_TYPE_INTERNAL_IP"`}},
		{conformance.Question{Op: abi.OpListInstances}, []string{`"nodeName":"worker-1"`}},
		{conformance.Question{Op: abi.OpLoadBalancerEnsure, Wait: true}, []string{`"code":"ok"`, "POST ", `"ip":"`}},
		{conformance.Question{Op: abi.OpLoadBalancerGet}, []string{`"existence":"EXISTENCE_EXISTS"`}},
		{conformance.Question{Op: abi.OpLoadBalancerName}, []string{`"requests":[]`, `"response":"lb-`}},
		{conformance.Question{Op: abi.OpLoadBalancerUpdate, Wait: true}, []string{`"code":"ok"`}},
		{conformance.Question{Op: abi.OpLoadBalancerDelete, Wait: true}, []string{`"code":"ok"`, "DELETE "}},
		{conformance.Question{Op: abi.OpRouteCreate, Object: "10.244.2.0/24", Wait: true}, []string{`"code":"ok"`}},
		{conformance.Question{Op: abi.OpRouteList}, []string{`"destinationCidr":"10.244.2.0/24"`, `"targetNode":"worker-2"`}},
		{conformance.Question{Op: abi.OpRouteDelete, Object: "10.244.2.0/24", Wait: true}, []string{`"code":"ok"`}},
		{conformance.Question{Op: abi.OpVolumeLabels}, []string{`"code":"ok"`}},
		{conformance.Question{Op: abi.OpTick}, []string{`"code":"ok"`}},
	} {
		_, text := asked(t, o, test.question)
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %s: %q is missing in %s", test.question.Op, test.question.Object, want, text)
			}
		}
	}
}

// A secret in a guest's log is not in the answer.
func TestAnswersToldHaveNoSecret(t *testing.T) {
	t.Parallel()
	a, text := asked(t, widgetOptions(t, "the secret is logged"), conformance.Question{Op: abi.OpLoadBalancerGet})
	if len(a.Said) == 0 || strings.Contains(text, token) {
		t.Errorf("the answer has a secret, or not what was logged: %s", text)
	}
}

func TestAskedErrors(t *testing.T) {
	t.Parallel()
	o := widgetOptions(t, "")
	o.Secrets = o.WrongSecrets
	o.Config = []byte("nothing")
	if _, err := conformance.Ask(t.Context(), o, conformance.Question{Op: abi.OpTick}); err == nil || !strings.Contains(err.Error(), "the module does not load: ") {
		t.Errorf("a bad configuration: %v", err)
	}
	for want, q := range map[string]conformance.Question{
		`no "gone" under services, only conformance`: {Op: abi.OpLoadBalancerGet, Object: "gone"},
		`no "gone" under nodes, only worker-1, `:     {Op: abi.OpInstanceExists, Object: "gone"},
		"configure is not asked alone":               {Op: abi.OpConfigure},
	} {
		if _, err := conformance.Ask(t.Context(), widgetOptions(t, ""), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	broken := widgetOptions(t, "no list is no load balancer")
	broken.HTTP = away{}
	a, _ := asked(t, broken, conformance.Question{Op: abi.OpLoadBalancerGet})
	if a.Code == abi.CodeOK.String() || a.Error == "" || a.Response != nil {
		t.Errorf("a cloud that is away: %+v", a)
	}
}

// away is an unavailable cloud.
type away struct{}

func (away) Send(_ context.Context, _ []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return nil, errors.New("connection refused")
}
