package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"net/url"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

const api = "http://localhost:8080/client/api"

func newHost(t *testing.T, config string) *sdktest.SignerHost {
	t.Helper()
	h := sdktest.NewSignerHost(t)
	h.Secret = map[string]string{"api-key": "anapikey", "secret-key": "topsecretkey"}
	h.Configure(&signer{}, config)
	return h
}

func get(rawURL string) *abi.HttpRequest { return &abi.HttpRequest{Method: "GET", Url: rawURL} }

func form(rawURL, body string) *abi.HttpRequest {
	return &abi.HttpRequest{
		Method: "POST", Url: rawURL, Body: []byte(body),
		Headers: []*abi.HttpHeader{{Name: "content-type", Value: "application/x-www-form-urlencoded; charset=utf-8"}},
	}
}

// queryOf returns the parameters that the cloud gets in the URL.
func queryOf(t *testing.T, req *abi.HttpRequest) url.Values {
	t.Helper()
	u, err := url.Parse(req.Url)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// The example of CloudStack's programmer guide, "How to sign an API call with
// Python".
func TestExampleOfTheGuide(t *testing.T) {
	h := newHost(t, "expires_seconds: 0")
	h.Secret = map[string]string{
		"api-key":    "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg",
		"secret-key": "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ",
	}
	signed, err := h.Sign(get(api + "?command=listUsers&response=json"))
	if err != nil {
		t.Fatal(err)
	}
	want := api + "?command=listUsers&response=json&apikey=" + h.Secret["api-key"] + "&signature=TTpdDq%2F7j%2FJ58XCRHomKoQXEQds%3D"
	if signed.Url != want {
		t.Errorf("got  %s\nwant %s", signed.Url, want)
	}
}

// Each signature is OpenSSL's of the text in the comment:
//
//	printf %s TEXT | openssl dgst -sha1 -hmac topsecretkey -binary | base64
func TestSignatures(t *testing.T) {
	tests := map[string]struct {
		config string
		req    *abi.HttpRequest
		want   string
	}{
		// apikey=anapikey&command=listusers
		"plain": {"expires_seconds: 0", get(api + "?command=listUsers"), "K1wMl7/mnscg4t511DTG+QdKAi4="},
		// a=sp%20ace%20plus%2bstar*tilde%7e%c3%a9%2f.-_&apikey=anapikey&command=createtags&tags[0].key=k
		"encoding as Java does it": {
			"expires_seconds: 0", get(api + "?tags%5B0%5D.key=k&command=createTags&a=sp%20ace+plus%2Bstar*tilde~%C3%A9%2f.-_"),
			"GQTSDsPmaBOWP0bWdmMspP7NhSE=",
		},
		// zone=upper&apikey=anapikey&command=listzones&zonea=lower
		"names are sorted as they are": {
			"expires_seconds: 0", get(api + "?zoneA=lower&Zone=upper&command=listZones"), "CEzPFbKYwn+hfvSu+kTI4ENttZU=",
		},
		// apikey=anapikey&command=listusers&expires=2026-01-02t03%3a14%3a05%2b0000&signatureversion=3
		"expires": {"", get(api + "?command=listUsers"), "8fEydodoau/QgOkAOCPFO16hCG8="},
		// account=a%20b&apikey=anapikey&command=deployvirtualmachine&userdata=zm9v%3d%3d
		"form and query": {
			"expires_seconds: 0", form(api+"?account=a%20b#fragment", "command=deployVirtualMachine&userdata=Zm9v%3D%3D"),
			"tBesN0XutuvjXpL6d12sIN0UvRM=",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			signed, err := newHost(t, test.config).Sign(test.req)
			if err != nil {
				t.Fatal(err)
			}
			if got := queryOf(t, signed)["signature"]; len(got) != 1 || got[0] != test.want {
				t.Errorf("signature %q, want %s; of %s", got, test.want, signed.Url)
			}
		})
	}
}

func TestExpiryIsInTheRequest(t *testing.T) {
	h := newHost(t, "expires_seconds: 60")
	for range 2 {
		signed, err := h.Sign(get(api + "?command=listUsers"))
		if err != nil {
			t.Fatal(err)
		}
		query := queryOf(t, signed)
		want := h.Clock.Add(time.Minute).Format("2006-01-02T15:04:05+0000")
		if query.Get("signatureversion") != "3" || query.Get("expires") != want {
			t.Errorf("the query is %v, want version 3 and %s", query, want)
		}
		h.Clock = h.Clock.Add(time.Hour)
	}
}

// Two requests have two signatures, even within a minute.
func TestSignaturesServeOneRequest(t *testing.T) {
	h := newHost(t, "")
	first, err := h.Sign(get(api + "?command=listUsers"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Sign(get(api + "?command=listZones"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := queryOf(t, first).Get("signature"), queryOf(t, second).Get("signature"); a == b {
		t.Errorf("both have the signature %s", a)
	}
}

func TestCommandsOfTheConfiguration(t *testing.T) {
	h := newHost(t, "commands:\n- listUsers\n- listZones\n")
	if _, err := h.Sign(get(api + "?command=listZones")); err != nil {
		t.Errorf("listZones: %v", err)
	}
	for _, req := range []*abi.HttpRequest{
		get(api + "?command=registerUserKeys"), form(api, "command=registerUserKeys"), get(api + "?command=LISTUSERS"),
	} {
		if _, err := h.Sign(req); sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), "not among the commands") {
			t.Errorf("%s %s: %v", req.Url, req.Body, err)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	h := newHost(t, "")
	typed := func(name, value string) *abi.HttpRequest {
		return &abi.HttpRequest{
			Method: "POST", Url: api, Body: []byte("command=a"),
			Headers: []*abi.HttpHeader{{Name: name, Value: value}},
		}
	}
	twice := form(api, "command=a")
	twice.Headers = append(twice.Headers, &abi.HttpHeader{Name: "Content-Type", Value: "text/plain"})
	tests := map[string]struct {
		req  *abi.HttpRequest
		want string
	}{
		"no command":            {get(api), "no parameter command"},
		"the console":           {get("http://localhost:8080/client/console?cmd=access&vm=1"), "no parameter command"},
		"command twice":         {get(api + "?command=listUsers&command=listZones"), "stands twice"},
		"in query and form":     {form(api+"?command=listUsers", "command=listZones"), "stands twice"},
		"own signature":         {get(api + "?command=a&Signature=b"), "leave it out"},
		"own key":               {get(api + "?command=a&apiKey=b"), "leave it out"},
		"own expiry":            {form(api, "command=a&EXPIRES=b"), "leave it out"},
		"own version":           {get(api + "?command=a&signatureVersion=1"), "leave it out"},
		"semicolon":             {get(api + "?command=a;b=c"), "not well-formed"},
		"bad escape":            {get(api + "?command=a&password=hunter2%zz"), "not well-formed"},
		"not UTF-8":             {get(api + "?command=a&b=%ff"), "not UTF-8"},
		"name with a separator": {get(api + "?command=a&b%26c=d"), "cannot be the name"},
		"empty name":            {get(api + "?command=a&=d"), "cannot be the name"},
		"body of a GET":         {&abi.HttpRequest{Method: "GET", Url: api, Body: []byte("command=a")}, "use POST"},
		"JSON":                  {typed("Content-Type", "application/json"), "set Content-Type"},
		"no type":               {typed("Accept", "application/x-www-form-urlencoded"), "without a type"},
		"two types":             {twice, "once"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			signed, err := h.Sign(test.req)
			if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v %v, want an error with %q", signed, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

func TestSecret(t *testing.T) {
	for name, secret := range map[string]map[string]string{
		"api-key":    {"secret-key": "topsecretkey"},
		"secret-key": {"api-key": "anapikey"},
		"line break": {"api-key": "anapikey", "secret-key": "topsecretkey\n"},
	} {
		h := newHost(t, "")
		h.Secret = secret
		if _, err := h.Sign(get(api + "?command=a")); sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigurationIsStrict(t *testing.T) {
	for config, want := range map[string]string{
		"- a":                             "line 1: the configuration is a list",
		"\nexpires: 5":                    `line 2: "expires" is unknown`,
		"expires_seconds: 901":            "line 1: expires_seconds must be",
		"expires_seconds: -1":             "line 1: expires_seconds must be",
		"expires_seconds: '5'":            "line 1: expires_seconds must be",
		"commands: listUsers":             "line 1: commands must be a list",
		"commands: []":                    "line 1: commands must be a list",
		"commands:\n- a\n- b: c":          "line 3: an entry of commands is a mapping",
		"commands: [a]\ncommands: [a, b]": "line 2",
		"\tx":                             "line 1",
	} {
		h := sdktest.NewSignerHost(t)
		h.Serve(&signer{})
		err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte(config)}, &abi.ConfigureResponse{})
		if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", config, err, want)
		}
	}
}

// FuzzSign: any request is refused, or signed so that a server with another
// parser finds each parameter once and the signature right.
func FuzzSign(f *testing.F) {
	f.Add(api+"?command=listUsers&response=json", "")
	f.Add(api, "command=deployVirtualMachine&userdata=Zm9v%3D%3D&name=a+b*c~d")
	f.Add(api+"?a=%00&command=x&tags[0].key=%E2%82%AC", "Zone=1")
	f.Fuzz(func(t *testing.T, rawURL, body string) {
		h := sdktest.NewSignerHost(t)
		h.Secret = map[string]string{"api-key": "anapikey", "secret-key": "topsecretkey"}
		h.Configure(&signer{}, "")
		req := get(rawURL)
		if body != "" {
			req = form(rawURL, body)
		}
		signed, err := h.Sign(req)
		if err != nil {
			return
		}
		_, sent, _ := strings.Cut(signed.Url, "?")
		if body != "" {
			sent += "&" + body
		}
		checkAsServer(t, sent)
	})
}

// checkAsServer checks the signature as CloudStack's server does.
func checkAsServer(t *testing.T, sent string) {
	t.Helper()
	values := map[string]string{}
	var names []string
	for _, pair := range strings.Split(sent, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(t, name), unescape(t, value)
		if _, twice := values[name]; twice {
			t.Fatalf("%s stands twice in %s", name, sent)
		}
		values[name] = value
		if name != "signature" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	text := ""
	for _, name := range names {
		text += "&" + name + "=" + javaEncode(values[name])
	}
	mac := hmac.New(sha1.New, []byte("topsecretkey"))
	mac.Write([]byte(strings.ToLower(strings.TrimPrefix(text, "&"))))
	if want := base64.StdEncoding.EncodeToString(mac.Sum(nil)); values["signature"] != want {
		t.Fatalf("the signature of %s is %s, want %s of %q", sent, values["signature"], want, text)
	}
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	plain, err := url.QueryUnescape(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return plain
}

// javaEncode follows the documentation of java.net.URLEncoder, with %20 for a
// space.
func javaEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(".-*_", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
		}
	}
	return b.String()
}
