package egress

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// TestPathsThatAreNotWhatTheySeem leave the granted prefix on some server.
func TestPathsThatAreNotWhatTheySeem(t *testing.T) {
	for name, path := range map[string]string{
		"escaped once":           "%2e%2e/admin",
		"escaped twice":          "%252e%252e/admin",
		"escaped three times":    "%25252e%25252e/admin",
		"escaped four times":     "%2525252e%2525252e/admin",
		"escaped eight times":    "%" + strings.Repeat("25", 8) + "2e./admin",
		"escaped for ever":       "%" + strings.Repeat("25", 3000),
		"beside what is none":    "%25/%252e%252e/admin",
		"%u":                     "%25u002e%25u002e/admin",
		"overlong, 2":            "%c0%ae%c0%ae/admin",
		"overlong, 2, one":       ".%c0%ae/admin",
		"overlong, 2, bad end":   "%c0%2e%c0%2e/admin",
		"overlong, 3":            "%e0%80%ae%e0%80%ae/admin",
		"overlong, 4":            "%f0%80%80%ae%f0%80%80%ae/admin",
		"overlong, 5":            "%f8%80%80%80%ae./admin",
		"overlong, 6":            "%fc%80%80%80%80%ae./admin",
		"overlong, escaped":      "%25c0%25ae%25c0%25ae/admin",
		"overlong slash":         "x%c0%af..%c0%afadmin",
		"overlong backslash":     "x%c1%9c..%c1%9cadmin",
		"full-width dots":        "%ef%bc%8e%ef%bc%8e/admin",
		"full-width dots, plain": "\uff0e\uff0e/admin",
		"two-dot leader":         "%e2%80%a5/admin",
		"small dots":             "%ef%b9%92%ef%b9%92/admin",
		"full-width slash":       "x%ef%bc%8f..%ef%bc%8fadmin",
		"division slash":         "x%e2%88%95..%e2%88%95admin",
		"full-width percent":     "%ef%bc%852e%ef%bc%852e/admin",
		"backslashes":            "x%5c..%5cadmin",
		"backslashes, twice":     "x%255c..%255cadmin",
		"slash, escaped":         "x%2f..%2fadmin",
		"slash, three times":     "x%25252f..%25252fadmin",
		"parameter":              "..;/admin",
		"parameter, escaped":     "..%3b/admin",
		"parameter, full-width":  "..%ef%bc%9b/admin",
		"query, escaped":         "..%3fx/admin",
		"fragment, escaped":      "..%23x/admin",
		"spaces":                 "..%20/admin",
		"NUL":                    "..%00/admin",
		"NUL at the end":         "x%00.json",
		"NUL, overlong":          "x%c0%80/admin",
		"line break, overlong":   "x%c0%8a",
		"line break, twice":      "x%250d%250ay",
		"dots and backslash":     `..\admin`,
		"all of it":              "%25ef%25bc%258e%c0%ae%255cadmin",
	} {
		if got, err := parseTarget("https://api.example.com/v1/" + path); err == nil {
			t.Errorf("%s: %s is taken", name, got)
		}
	}
}

// TestHonestPaths are those of clouds' APIs, and of names that users choose.
func TestHonestPaths(t *testing.T) {
	client, err := New([]Grant{{Scheme: "https", Host: "api.example.com", Port: 443}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"", "v1/servers?name=node-1&per_page=50", "v1/load_balancers/1/actions/add_target",
		"subscriptions/0-1/resourceGroups/rg_a.b-(1)/providers/Microsoft.Network/loadBalancers/kubernetes-internal/backendAddressPools/p?api-version=2023-09-01",
		"subscriptions/0/resourceGroups/r/providers/Microsoft.Compute/virtualMachineScaleSets/vmss/virtualMachines/0/networkInterfaces/nic",
		"compute/v1/projects/p/zones/europe-west3-a/instances/node-1/setMetadata", "compute/v1/projects/example.com:p/global/forwardingRules",
		"v1/projects/p/locations/-/clusters/c:setLabels", "v2.1/0123456789abcdef/servers/detail?name=%5Enode-1%24&limit=1",
		"v2.0/lbaas/loadbalancers/6c1d/status?fields=id&fields=name", "v1/AUTH_x/container/a%2Fb%2Fc", "v1/AUTH_x/container/a%20b",
		"v3/users/me%40example.com", "bucket/k%C3%BCche/%E6%97%A5%E6%9C%AC.txt", "bucket/küche", "bucket/na%C3%AFve%20caf%C3%A9",
		"bucket/100%25", "bucket/100%2525", "bucket/50%25%20off", "bucket/a%2Bb+c", "bucket/a;b", "bucket/a%3Bv=1/x", "bucket/x;v=1.2",
		"bucket/...", "bucket/..foo", "bucket/foo..", "bucket/foo..bar", "bucket/.hidden", "bucket/1.2.3..4", "bucket/a.b.c/.d/e.",
		"bucket/~user", "bucket//empty//segments", "bucket/(a)%5Bb%5D", "bucket/a,b=c&d$e!f'g*h@i", "bucket/%F0%9F%9A%80", "bucket/ﬁ.txt",
		"bucket/%E9t%E9", "bucket/\u2026", "bucket/C%C3%A0", "api/v1/namespaces/kube-system/services/https:dashboard:443/proxy/",
		"v1/x?redirect=..%2F..%2Fadmin&method=DELETE&http_method=x", "a%2Fb/..c/%2Ed",
	} {
		if _, e := client.authorize(&abi.HttpRequest{Method: "GET", Url: "https://api.example.com/" + path}, false); e != nil {
			t.Errorf("%q: %s", path, e.Message)
		}
	}
}

// TestHeadersThatMakeAnotherRequest are refused, in each spelling, whoever sets
// them; the usual ones are not.
func TestHeadersThatMakeAnotherRequest(t *testing.T) {
	for _, name := range []string{
		"X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override", "X_HTTP_METHOD_OVERRIDE", "x-http_method-override",
		"X.HTTP.Method.Override", "X-HTTP-Method~Override", "Client-IP",
		"X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Override-URL", "X-Envoy-Original-Path", "X-Replaced-Path",
		"X-Original-Host", "X-Host", "X-HTTP-Host-Override", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Uri",
		"X-Forwarded-Method", "X-Forwarded-Proto", "X-Forwarded-For", "x_forwarded_host", "Forwarded", "X-Real-IP", "True-Client-IP", "Proxy",
		"Content_Length", "Transfer_Encoding",
	} {
		h := []*abi.HttpHeader{{Name: name, Value: "x"}}
		if err := checkHeaders("PUT", h); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, name := range []string{
		"Accept", "Authorization", "Content-Type", "Content-Encoding", "If-Match", "If-None-Match", "User-Agent", "X-Auth-Token", "X-Subject-Token",
		"OpenStack-API-Version", "X-OpenStack-Nova-API-Version", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Target", "X-Amz-Content-Sha256",
		"X-Ms-Client-Request-Id", "X-Ms-Version", "X-Goog-User-Project", "X-Goog-Request-Params", "X-Request-Id", "Idempotency-Key", "Traceparent",
		"X-Requested-With", "Prefer", "Cookie", "X-Object-Meta-Name", "X-Trans-Id", "Date",
	} {
		if err := checkHeaders("PUT", []*abi.HttpHeader{{Name: name, Value: "x"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, query := range []string{"_method=DELETE", "a=b&_METHOD=x", "a;_method=x", "%5fmethod=x", ".method=x", "+method=x", "X-HTTP-Method-Override=x", "x_http[method=x", "_method"} {
		if checkQuery(query) == nil {
			t.Errorf("the query %s is taken", query)
		}
	}
}

// reference are the forms that servers may make of a path: by net/url alone
// where it can, decoded as often as it takes.
func reference(sent string) []string {
	forms := []string{sent}
	escape := regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	for i := 0; i < len(forms) && i < 64; i++ {
		once := escape.ReplaceAllStringFunc(forms[i], func(e string) string {
			n, err := strconv.ParseUint(e[1:], 16, 8)
			if err != nil {
				return e
			}
			return string([]byte{byte(n)})
		})
		for _, form := range []string{once, norm.NFKC.String(forms[i]), strings.NewReplacer("\xc0\xae", ".", "\xc0\xaf", "/", "\xe0\x80\xae", ".").Replace(forms[i])} {
			if decoded, err := url.PathUnescape(forms[i]); err == nil && form == once && decoded != once {
				panic(fmt.Sprintf("%q: the reference decodes to %q, net/url to %q", forms[i], once, decoded))
			}
			if form != forms[i] {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// leaves reports whether a form leads out of the prefix, by path.Clean.
func leaves(prefix, form string) bool {
	form = strings.ReplaceAll(form, `\`, "/")
	parameters := regexp.MustCompile(`;[^/]*`)
	for _, f := range []string{form, parameters.ReplaceAllString(form, "")} {
		if f, _, _ = strings.Cut(f, "\x00"); !strings.HasPrefix(path.Clean(f)+"/", prefix) {
			return true
		}
	}
	return false
}

// FuzzPath: no form of a path that is sent leaves the granted prefix.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a", "%2e%2e", "..;x", `..\`, "%25252e", "%c0%ae", "\uff0e", "%25c0%25ae/", "50%25", "%%32%65", "a%2f..%2f..%2fb", ".%2e;%2f"} {
		f.Add(seed)
	}
	g, err := ParseGrant("https://api.example.com/granted/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		sent, err := parseTarget("https://api.example.com/granted/" + rest)
		if err != nil || !g.allows("GET", sent) {
			return
		}
		for _, form := range reference(sent.path) {
			if leaves("/granted/", form) {
				t.Fatalf("%q is sent as %s, and some server reads it as %q", rest, sent.path, form)
			}
		}
	})
}
