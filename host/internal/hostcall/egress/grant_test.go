package egress_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

func TestParseGrant(t *testing.T) {
	for prefix, want := range map[string]string{
		"https://api.example.com":                "https://api.example.com:443/",
		"https://API.Example.com:8774/v2.1/":     "https://api.example.com:8774/v2.1/",
		"http://keystone":                        "http://keystone:80/",
		"https://*.Example.com/v1/":              "https://*.example.com:443/v1/",
		"http://127.0.0.1:8080/x":                "http://127.0.0.1:8080/x",
		"https://[2001:DB8:0::1]/":               "https://[2001:db8::1]:443/",
		"https://xn--bcher-kva.example/b%C3%BC/": "https://xn--bcher-kva.example:443/b%C3%BC/",
		"https://my_host.example":                "https://my_host.example:443/",
	} {
		g, err := egress.ParseGrant(prefix)
		if err != nil || g.String() != want {
			t.Errorf("ParseGrant(%q) = %v, %v, want %s", prefix, g, err, want)
		}
	}
}

func TestParseGrantRefuses(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                           "scheme",
		"api.example.com":            "scheme",
		"ftp://a":                    "scheme",
		"https://":                   "no host",
		"https://*/":                 "neither a DNS name",
		"https://*.com/":             "two labels",
		"https://*.*.example.com/":   "neither a DNS name",
		"https://a.*.example.com/":   "neither a DNS name",
		"https://a*.example.com/":    "neither a DNS name",
		"https://*.10.0.0.1/":        "two labels",
		"https://*.0.0.1/":           "ends like an IP address",
		"https://*.[2001:db8::1]/":   "two labels",
		"https://a.example.com./":    "trailing dot",
		"https://bücher.example/":    "xn--",
		"https://a:0/":               "port",
		"https://a:65536/":           "port",
		"https://a:/":                "port is empty",
		"https://a/?q=1":             "query",
		"https://a/?":                "query",
		"https://a/#f":               "fragment",
		"https://a/..":               "segment",
		"https://1.2.3/":             "ends like an IP address",
		"https://0x7f.1/":            "ends like an IP address",
		"https://2130706433/":        "ends like an IP address",
		"https://a.0x1/":             "ends like an IP address",
		"https://010.0.0.1/":         "ends like an IP address",
		"https://[::ffff:10.0.0.1]/": "IPv4 address as IPv4",
		"https://[fe80::1%25eth0]/":  "without a zone",
		"https://" + strings.Repeat("a.", 200) + "b/": "neither",
	} {
		if g, err := egress.ParseGrant(prefix); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseGrant(%q) = %v, %v, want an error with %q", prefix, g, err, want)
		}
	}
}

func TestGrantWithAPasswordIsNotRepeated(t *testing.T) {
	_, err := egress.ParseGrant("https://user:hunter2@a/")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestNewRefusesGrantsThatWereNotParsed(t *testing.T) {
	for name, g := range map[string]egress.Grant{
		"empty":           {},
		"upper case":      {Scheme: "https", Host: "A.example", Port: 443},
		"no port":         {Scheme: "https", Host: "a.example"},
		"bad method":      {Scheme: "https", Host: "a.example", Port: 443, Methods: []string{"CONNECT"}},
		"IPv4-mapped net": {Scheme: "https", Host: "a.example", Port: 443, CIDRs: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"zero net":        {Scheme: "https", Host: "a.example", Port: 443, CIDRs: []netip.Prefix{{}}},
	} {
		if _, err := egress.New([]egress.Grant{g}, egress.Options{}); err == nil {
			t.Errorf("%s: New took it", name)
		}
	}
}

// TestRefusedBeforeAnythingIsSent has no server: a request that is not refused
// would be CodeUnavailable or CodeDeadline.
func TestRefusedBeforeAnythingIsSent(t *testing.T) {
	narrow := grant(t, "https://api.example.com:8774/v2.1/")
	narrow.Methods = []string{"GET", "PURGE"}
	client := newClient(t, egress.Options{}, narrow, grant(t, "https://api.example.com/exact"), grant(t, "http://127.0.0.1"))
	const base = "https://api.example.com:8774/v2.1/"
	for name, test := range map[string]struct {
		request *abi.HttpRequest
		want    abi.Code
		text    string
	}{
		"other host":          {get("https://other.example.com:8774/v2.1/"), abi.CodeDenied, `{scheme: https, host: "other.example.com", port: 8774}`},
		"subdomain":           {get("https://x.api.example.com:8774/v2.1/"), abi.CodeDenied, "no grant"},
		"other port":          {get("https://api.example.com:8775/v2.1/"), abi.CodeDenied, "no grant"},
		"default port":        {get("https://api.example.com/v2.1/"), abi.CodeDenied, "no grant"},
		"other scheme":        {get("http://api.example.com:8774/v2.1/"), abi.CodeDenied, "no grant"},
		"no such scheme":      {get("file:///etc/passwd"), abi.CodeInvalid, "scheme"},
		"other path":          {get("https://api.example.com:8774/v3/"), abi.CodeDenied, "one allows this host, but not the path; to allow it, change the pathPrefix"},
		"above the path":      {get("https://api.example.com:8774/v2.1"), abi.CodeDenied, "no grant"},
		"sibling of a path":   {get("https://api.example.com/exactly"), abi.CodeDenied, "no grant"},
		"escaped prefix":      {get("https://api.example.com:8774/v2%2e1/x"), abi.CodeDenied, "no grant"},
		"escaped slash":       {get("https://api.example.com:8774/v2.1%2fx"), abi.CodeDenied, "no grant"},
		"dot segments":        {get(base + "../admin"), abi.CodeInvalid, "segment"},
		"escaped dots":        {get(base + "%2e%2E/admin"), abi.CodeInvalid, "segment"},
		"half escaped dots":   {get(base + ".%2e/admin"), abi.CodeInvalid, "segment"},
		"dots behind %2f":     {get(base + "a%2f..%2fadmin"), abi.CodeInvalid, "segment"},
		"twice escaped dots":  {get(base + "%252e%252e/admin"), abi.CodeInvalid, "segment"},
		"backslash":           {get(base + `a\..\admin`), abi.CodeInvalid, "segment"},
		"dots with parameter": {get(base + "..;a=b/admin"), abi.CodeInvalid, "segment"},
		"escaped newline":     {get(base + "a%0d%0aX:y"), abi.CodeInvalid, "control"},
		"userinfo":            {get("https://api.example.com:8774@evil.example/"), abi.CodeInvalid, "user name or password"},
		"own userinfo":        {get("https://u:p@api.example.com:8774/v2.1/"), abi.CodeInvalid, "user name or password"},
		"space in the query":  {get(base + "?a= HTTP/1.0"), abi.CodeInvalid, "%20"},
		"fragment":            {get(base + "#x"), abi.CodeInvalid, "fragment"},
		"empty fragment":      {get(base + "#"), abi.CodeInvalid, "fragment"},
		"trailing dot":        {get("https://api.example.com.:8774/v2.1/"), abi.CodeInvalid, "trailing dot"},
		"mapped address":      {get("http://[::ffff:127.0.0.1]/"), abi.CodeInvalid, "IPv4 address as IPv4"},
		"decimal address":     {get("http://2130706433/"), abi.CodeInvalid, "ends like an IP address"},
		"octal address":       {get("http://0177.0.0.1/"), abi.CodeInvalid, "ends like an IP address"},
		"short address":       {get("http://127.1/"), abi.CodeInvalid, "ends like an IP address"},
		"full-width digits":   {get("http://１２７.0.0.1/"), abi.CodeInvalid, "neither"},
		"space in the host":   {get("https://api.example.com /"), abi.CodeInvalid, "not valid"},
		"no URL":              {get(""), abi.CodeInvalid, "scheme"},
		"long URL":            {get(base + strings.Repeat("x", 9000)), abi.CodeTooLarge, "limit"},
		"method of no grant":  {&abi.HttpRequest{Method: "POST", Url: base}, abi.CodeDenied, "POST https://api.example.com:8774/v2.1/: a grant allows this URL, but not the method; to allow it, add POST to the methods of the grant in the HostConfiguration (providers[].grants[].methods)"},
		"CONNECT":             {&abi.HttpRequest{Method: "CONNECT", Url: base}, abi.CodeInvalid, "method"},
		"TRACE":               {&abi.HttpRequest{Method: "TRACE", Url: base}, abi.CodeInvalid, "method"},
		"lower case method":   {&abi.HttpRequest{Method: "get", Url: base}, abi.CodeInvalid, "upper case"},
		"no method":           {&abi.HttpRequest{Url: base}, abi.CodeInvalid, "method"},
		"method with space":   {&abi.HttpRequest{Method: "GET /x HTTP/1.1\r\n", Url: base}, abi.CodeInvalid, "method"},
		"negative timeout":    {&abi.HttpRequest{Method: "GET", Url: base, TimeoutMs: -1}, abi.CodeInvalid, "timeout_ms"},
		"credential":          {&abi.HttpRequest{Method: "GET", Url: base, Credential: "token"}, abi.CodeDenied, `no credential named "token" is configured`},
		"Host header":         {withHeader(base, "hOST", "evil"), abi.CodeInvalid, "must not be set"},
		"Connection":          {withHeader(base, "Connection", "upgrade"), abi.CodeInvalid, "must not be set"},
		"Upgrade":             {withHeader(base, "upgrade", "h2c"), abi.CodeInvalid, "must not be set"},
		"Transfer-Encoding":   {withHeader(base, "Transfer-Encoding", "chunked"), abi.CodeInvalid, "must not be set"},
		"Content-Length":      {withHeader(base, "Content-Length", "5"), abi.CodeInvalid, "must not be set"},
		"Proxy-Authorization": {withHeader(base, "Proxy-Authorization", "x"), abi.CodeInvalid, "must not be set"},
		"pseudo header":       {withHeader(base, ":authority", "evil"), abi.CodeInvalid, "not valid"},
		"newline in a value":  {withHeader(base, "X-A", "a\r\nHost: evil"), abi.CodeInvalid, "not valid"},
		"newline in a name":   {withHeader(base, "X-A\r\nHost", "evil"), abi.CodeInvalid, "not valid"},
		"huge headers":        {withHeader(base, "X-A", strings.Repeat("x", 70_000)), abi.CodeInvalid, "limit"},
		"many headers":        {&abi.HttpRequest{Method: "GET", Url: base, Headers: make([]*abi.HttpHeader, 200)}, abi.CodeInvalid, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			got := sendOne(t, client, test.request)
			if abi.Code(got.Code) != test.want || !strings.Contains(errorOf(got).Message, test.text) {
				t.Errorf("%v: %q, want %v with %q", abi.Code(got.Code), errorOf(got).Message, test.want, test.text)
			}
		})
	}
}
