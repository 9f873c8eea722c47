package sdk_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// sealer is a signer with answers from functions.
type sealer struct {
	configure func(config []byte) ([]string, error)
	sign      func(req *abi.SignRequest) (*abi.SignResponse, error)
}

func (*sealer) Info() sdk.Info { return sdk.Info{Name: "sealer", Version: "1.2.3"} }

func (s *sealer) Configure(config []byte) ([]string, error) {
	if s.configure == nil {
		return nil, nil
	}
	return s.configure(config)
}

func (s *sealer) Sign(req *abi.SignRequest) (*abi.SignResponse, error) { return s.sign(req) }

func sealed(t *testing.T, sign func(req *abi.SignRequest) (*abi.SignResponse, error)) *sdktest.SignerHost {
	h := sdktest.NewSignerHost(t)
	h.Configure(&sealer{sign: sign}, "")
	return h
}

func header(name, value string) []*abi.HttpHeader {
	return []*abi.HttpHeader{{Name: name, Value: value}}
}

func TestSignerHasTheOpsOfEveryGuest(t *testing.T) {
	h := sdktest.NewSignerHost(t)
	h.Serve(&sealer{configure: func(config []byte) ([]string, error) { return []string{string(config)}, nil }})
	var described abi.DescribeResponse
	if err := h.Call(abi.OpDescribe, &abi.DescribeRequest{}, &described); err != nil {
		t.Fatal(err)
	}
	if described.Name != "sealer" || described.Version != "1.2.3" || described.ProviderName != "sealer" {
		t.Errorf("described %v", &described)
	}
	var configured abi.ConfigureResponse
	if err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte("hello")}, &configured); err != nil {
		t.Fatal(err)
	}
	if !configured.Accepted || len(configured.Warnings) != 1 || configured.Warnings[0] != "hello" {
		t.Errorf("configured %v", &configured)
	}
	var probed abi.ProbeResponse
	if err := h.Call(abi.OpProbe, &abi.ProbeRequest{}, &probed); err != nil || !probed.Ready {
		t.Errorf("probed %v %v", &probed, err)
	}
	for _, op := range []abi.Op{abi.OpInstanceExists, abi.OpLoadBalancerEnsure, 4711} {
		if err := h.Call(op, &abi.ProbeRequest{}, &abi.Done{}); sdk.CodeOf(err) != abi.CodeNotImplemented {
			t.Errorf("%s: %v, want not_implemented", op, err)
		}
	}
}

func TestSignerRefusesItsConfiguration(t *testing.T) {
	h := sdktest.NewSignerHost(t)
	h.Serve(&sealer{configure: func([]byte) ([]string, error) { return nil, sdk.Invalidf("line 1: no") }})
	if err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{}, &abi.ConfigureResponse{}); sdk.CodeOf(err) != abi.CodeInvalid {
		t.Errorf("%v, want invalid", err)
	}
}

func TestSignature(t *testing.T) {
	h := sealed(t, func(req *abi.SignRequest) (*abi.SignResponse, error) {
		key, err := sdk.Secret(req, "key")
		return &abi.SignResponse{Headers: header("Authorization", "Key "+key), Query: header("sig", "a+b=&c")}, err
	})
	h.Secret = map[string]string{"a": "1", "key": "opensesame"}
	signed, err := h.Sign(&abi.HttpRequest{
		Method: "PUT", Url: "https://c/x?y=1#z", Body: []byte("body"),
		Headers: append(header("AUTHORIZATION", "guess"), header("Accept", "a/b")...),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &abi.HttpRequest{
		Method: "PUT", Url: "https://c/x?y=1&sig=a%2Bb%3D%26c", Body: []byte("body"),
		Headers: append(header("Accept", "a/b"), header("Authorization", "Key opensesame")...),
	}
	if !reflect.DeepEqual(want, signed) {
		t.Errorf("signed %v, want %v", signed, want)
	}
}

// A wrong answer of a signer is an error of the op, with its reason.
func TestSignerMistakes(t *testing.T) {
	token := &abi.HttpRequest{Method: "POST", Url: "https://c/token"}
	for want, sign := range map[string]func(req *abi.SignRequest) (*abi.SignResponse, error){
		"without an answer": func(*abi.SignRequest) (*abi.SignResponse, error) { return nil, nil },
		"second token request": func(*abi.SignRequest) (*abi.SignResponse, error) {
			return &abi.SignResponse{TokenRequest: token}, nil
		},
		"both": func(*abi.SignRequest) (*abi.SignResponse, error) {
			return &abi.SignResponse{TokenRequest: token, Headers: header("A", "b")}, nil
		},
		"65537 bytes": func(*abi.SignRequest) (*abi.SignResponse, error) {
			return &abi.SignResponse{State: make([]byte, sdk.MaxSignerState+1)}, nil
		},
	} {
		_, err := sealed(t, sign).Sign(&abi.HttpRequest{Method: "GET", Url: "https://c"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	h := sealed(t, nil)
	if err := h.Call(abi.OpSign, &abi.SignRequest{}, &abi.SignResponse{}); sdk.CodeOf(err) != abi.CodeInvalid {
		t.Errorf("no request: %v, want invalid", err)
	}
}

func TestSecretOfARequest(t *testing.T) {
	req := &abi.SignRequest{Secret: []*abi.SecretValue{
		{Key: "crlf", Value: []byte("v\r\n")}, {Key: "empty"}, {Key: "good", Value: []byte("v")},
	}}
	for key, want := range map[string]string{"good": "", "empty": "no value", "absent": "no value", "crlf": "line break"} {
		value, err := sdk.Secret(req, key)
		if want == "" && (err != nil || value != "v") || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), key)) {
			t.Errorf("%s: %q %v, want %q", key, value, err, want)
		}
	}
	if value, err := sdk.OptionalSecret(req, "absent"); value != "" || err != nil {
		t.Errorf("absent: %q %v", value, err)
	}
}

// The host in memory reuses signatures and states as the manager does.
func TestSignerHostKeepsWhatItMay(t *testing.T) {
	var seen []*abi.SignRequest
	h := sealed(t, func(req *abi.SignRequest) (*abi.SignResponse, error) {
		seen = append(seen, req)
		if req.TokenResult == nil {
			return &abi.SignResponse{TokenRequest: &abi.HttpRequest{Method: "POST", Url: "https://c/token"}}, nil
		}
		token := ""
		if response := req.TokenResult.Response; response != nil {
			token = string(response.Body)
		}
		return &abi.SignResponse{
			Headers: header("T", token), State: []byte("kept"), ExpiresMs: req.NowMs + 1000,
		}, nil
	})
	h.Tokens = func(*abi.HttpRequest) (*abi.HttpResponse, error) {
		return &abi.HttpResponse{Status: 200, Body: []byte("token")}, nil
	}
	sign := func(scope string, calls int) {
		t.Helper()
		seen = nil
		signed, err := h.Sign(&abi.HttpRequest{Method: "GET", Url: "https://c", CredentialScope: scope})
		if err != nil || len(signed.Headers) != 1 || signed.Headers[0].Value != "token" || len(seen) != calls {
			t.Fatalf("%v %v after %d calls, want %d", signed, err, len(seen), calls)
		}
	}
	sign("", 2)
	sign("", 0)
	sign("other", 2)
	if string(seen[0].State) != "" || seen[0].Scope != "other" {
		t.Errorf("another scope was asked for with %v", seen[0])
	}
	h.Rejected("")
	sign("", 2)
	if string(seen[0].State) != "kept" || !seen[0].Rejected || seen[1].Rejected {
		t.Errorf("after a rejection: %v", seen)
	}
	h.Clock = h.Clock.Add(time.Second)
	sign("", 2)
	if seen[0].Rejected {
		t.Error("a rejection was said twice")
	}
	h.Secret = map[string]string{"a": "b"}
	sign("", 2)
	if len(seen[0].State) != 0 {
		t.Error("the state outlived the Secret")
	}
	h.Tokens = nil
	h.Rejected("")
	if _, err := h.Sign(&abi.HttpRequest{Method: "GET", Url: "https://c"}); err != nil {
		t.Fatal(err) // this signer takes a failed request for a token
	}
	if code := abi.Code(seen[len(seen)-1].TokenResult.Code); code != abi.CodeDenied {
		t.Errorf("without Tokens: %s, want denied", code)
	}
}
