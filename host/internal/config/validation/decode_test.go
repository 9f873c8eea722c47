package validation_test

import (
	"os"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

const least = `
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- name: example
  source: {configMap: {namespace: kube-system, name: cloud-provider}}
`

func read(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("../../../config/v1alpha1/testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Each change of the full example is a mistake, and its error has the path.
func TestMistakesHaveTheirPath(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"kind: HostConfiguration", "kind: Pod", "begin it with apiVersion: config.wasm-ccm.dev/v1alpha1"},
		{"v1alpha1", "v9", "begin it with apiVersion"},
		{"  ops:", "  opps:", `unknown field "providers[0].opps"`},
		{"foreground: 2s", "foreground: 2s\n    foreground: 3s", "foreground"},
		{"pathPrefix:", "path:", `unknown field "providers[0].grants[0].path"`},
		{"port: 8774", "port: 877400", "providers[0].grants[0].port: must be a number"},
		{"host: api.example.com", "host: ''", "providers[0].grants[0].host"},
		{"cidrs: [10.0.0.0/8]", "cidrs: [10.1.0.0/8]", "providers[0].grants[0].cidrs[0]"},
		{"cidrs: [10.0.0.0/8]", "caBundle: nonsense", "providers[0].grants[0].caBundle"},
		{"cidrs: [10.0.0.0/8]", "scheme: ftp", "providers[0].grants[0].scheme"},
		// Mistakes that egress, credential, addresses and provenance would
		// refuse later, without the path.
		{"host: api.example.com", "host: API.example.com", "providers[0].grants[0].host"},
		{"host: api.example.com", "host: api.example.com.", "providers[0].grants[0].host"},
		{"host: api.example.com", "host: 010.0.0.1", "providers[0].grants[0].host"},
		{"host: api.example.com", "host: '*.com'", "providers[0].grants[0].host"},
		{"host: api.example.com", "host: api.example.com/v2", "providers[0].grants[0].host"},
		{"pathPrefix: /v2.1/", "pathPrefix: v2.1/", "providers[0].grants[0].pathPrefix"},
		{"pathPrefix: /v2.1/", "pathPrefix: /v2.1/../", "providers[0].grants[0].pathPrefix"},
		{"pathPrefix: /v2.1/", "pathPrefix: /v2.1?x", "providers[0].grants[0].pathPrefix"},
		{"methods: [GET, POST]", "methods: [GET, post]", "providers[0].grants[0].methods[1]"},
		{"methods: [GET, POST]", "methods: [GET, CONNECT]", "providers[0].grants[0].methods[1]"},
		{"https://identity.example.com/v3", "https://*.com/v3", "providers[0].credentials[0].signer.tokens[0].url"},
		{"https://login.example.com/token", "https://*.example.com/token", "providers[0].credentials[5].oauth2ClientCredentials.token.url"},
		{"https://identity.example.com/v3", "https://identity.example.com/../v3", "providers[0].credentials[0].signer.tokens[0].url"},
		{"https://login.example.com/token", "https://login.example.com:/token", "providers[0].credentials[5].oauth2ClientCredentials.token.url"},
		{"header: {header: X-Auth-Token}", "header: {header: 'X Auth'}", "providers[0].credentials[1].header.header"},
		{"header: {header: X-Auth-Token}", "header: {header: Host}", "providers[0].credentials[1].header.header"},
		{"header: {header: X-Auth-Token}", "header: {header: X-Forwarded-For}", "providers[0].credentials[1].header.header"},
		{"header: {header: X-Auth-Token}", "header: {header: X-Auth-Token, prefix: \"a\\nb\"}", "providers[0].credentials[1].header.prefix"},
		{"query: {parameter: api_key}", "query: {parameter: _method}", "providers[0].credentials[4].query.parameter"},
		{"allow: [127.0.0.0/8", "allow: [10.0.0", "providers[0].addresses.allow[0]"},
		{"configFrom: {configMap: {namespace: kube-system, name: cloud-config}}", "configFrom: {}", "providers[0].configFrom: Required value: give either configMap or secret"},
		{"configFrom: {configMap: {", "configFrom: {secret: {namespace: a, name: b}, configMap: {", "providers[0].configFrom: Required value: give either"},
		{"name: cloud-config}}", "name: cloud-config, key: a/b}}", "providers[0].configFrom.configMap.key"},
		{"name: cloud-config}}", "name: Cloud_Config}}", "providers[0].configFrom.configMap.name"},
		{"name: cloud-config}}", "name: cloud-provider}}", "providers[0].configFrom.configMap: Invalid value: \"cloud-provider\": it is the source"},
		{"credentials: [cloud]", "credentials: [clout]", "providers[0].grants[0].credentials[0]"},
		{"name: cloud-client", "name: Cloud_Client", "providers[0].grants[0].clientCertificate.name"},
		{"name: signer-keystone", "name: cloud-provider", "providers[0].credentials[0].signer.source"},
		{"https://identity.example.com/v3", "https://me:hunter2@identity.example.com/v3", "providers[0].credentials[0].signer.tokens[0].url"},
		{"engine: wasmtime", "engine: v8", `providers[0].engine: Unsupported value: "v8": supported values: "wazero", "wasmtime"`},
		{"name: header,", "name: cloud,", "providers[0].credentials[1].name: Duplicate"},
		{"header: {header: X-Auth-Token}", "header: {}", "providers[0].credentials[1].header.header"},
		{"basic: {}", "", "providers[0].credentials[2]: Invalid value: \"basic\": give exactly one of"},
		{"basic: {}", "basic: {}, bearer: {}", "give exactly one of"},
		{"publicKeys: [username]", "publicKeys: [a, b/c]", "providers[0].credentials[0].publicKeys[1]"},
		{"key: other", "key: a/b", "providers[0].credentials[3].bearer.key"},
		{"region: eu-west-1, ", "", "providers[0].credentials[6].awsSigV4.region"},
		{"placeholder: the-host-has-it", "placeholder: hunter2", "providers[0].credentials[7].bodyTemplate.placeholder"},
		{"placeholder: the-host-has-it", "placeholder: 'hunter2 & more'", "providers[0].credentials[7].bodyTemplate.placeholder"},
		{"placeholder: the-host-has-it", "placeholder: userName", "providers[0].credentials[7].bodyTemplate.body: Invalid value: \"...\": it holds the placeholder"},
		{"path: /sdk", "path: sdk", "providers[0].credentials[7].bodyTemplate.path"},
		{"path: /sdk", "path: /sdk?x=y", "providers[0].credentials[7].bodyTemplate.path"},
		{"path: /sdk", "path: /sdk\n      method: post", "providers[0].credentials[7].bodyTemplate.method"},
		{"text/xml; charset=utf-8", "text/plain", "providers[0].credentials[7].bodyTemplate.contentType"},
		{"text/xml; charset=utf-8", "text/xml; charset=utf-16", "providers[0].credentials[7].bodyTemplate.contentType"},
		{"SOAPAction: urn:vim25/8.0", "Content_Encoding: gzip, Content-Encoding: gzip", "providers[0].credentials[7].bodyTemplate.headers[Content-Encoding]"},
		{"SOAPAction: urn:vim25/8.0", "Host: a", "providers[0].credentials[7].bodyTemplate.headers[Host]"},
		{"SOAPAction: urn:vim25/8.0", "A: \"hunter2\\n\"", "providers[0].credentials[7].bodyTemplate.headers[A]"},
		{"$(password)<", "hunter2 $(pass word)<", "providers[0].credentials[7].bodyTemplate.body: Invalid value: \"...\": between $( and )"},
		{"<password>$(password)</password>", "<!-- $(password) -->", "providers[0].credentials[7].bodyTemplate.body: Invalid value: \"...\": each mark must stand"},
		{"cookie: vmware_soap_session", "cookie: a b", "providers[0].credentials[7].session.cookie"},
		{"cookie: vmware_soap_session", "cookie: a, header: b, field: c", "providers[0].credentials[7].session: Invalid value: \"\": give either cookie"},
		{"cookie: vmware_soap_session", "header: b", "providers[0].credentials[7].session.field"},
		{"cookie: vmware_soap_session", "header: Cookie, field: a", "providers[0].credentials[7].session.header"},
		{"cookie: vmware_soap_session", "header: Host, field: a", "providers[0].credentials[7].session.header"},
		{"query: {parameter: api_key}", "query: {parameter: api_key}, session: {cookie: a}", "providers[0].credentials[4].session: Forbidden"},
		{"perSecond: 20", "perSecond: -1", "providers[0].requests.perSecond"},
		{"lb_ensure: 5m", "lb_insure: 5m", "providers[0].ops.timeouts[lb_insure]"},
		{"lb_ensure: 5m", "probe: 5m", "providers[0].ops.timeouts[probe]"},
		{"lb_ensure: 5m", "sign: 5m", "providers[0].ops.timeouts[sign]"},
		{"lb_ensure: 5m", "lb_ensure: 5h", "providers[0].ops.timeouts[lb_ensure]"},
		{"memory: 32Mi", "memory: 1Ti", "providers[0].limits.memory"},
		{"module: 8Mi", "module: 300Mi", "providers[0].limits.module: Invalid value"},
		{"output: 512Mi", "output: 2Gi", "providers[0].limits.compile.output: Invalid value"},
		{"cpu: 5m", "cpu: 2h", "providers[0].limits.compile.cpu: Invalid value"},
		{"wall: 10m", "wall: 10ms", "providers[0].limits.compile.wall: Invalid value"},
		{"compile: {memory: 2Gi", "compile: {memory: 1Mi", "providers[0].limits.compile.memory: Invalid value"},
		{"memory: 32Mi", "memory: 64MB", "providers[0].limits.memory: must be a quantity such as 64Mi"},
		{"foreground: 2s", "foreground: 2 s", "providers[0].ops.foreground: must be a duration such as 30s"},
		{"foreground: 2s", "foreground: 2", "providers[0].ops.foreground: must be a text"},
		{"foreground: 2s", "foreground: [2s]", "providers[0].ops.foreground: must be a text"},
		{"lb_ensure: 5m", "lb_ensure: 5", "providers[0].ops.timeouts.lb_ensure: must be a text"},
		{"cidrs: [10.0.0.0/8]", "cidrs: hunter2", "providers[0].grants[0].cidrs: must be a list"},
		{"percent: 5", "percent: some", "deletionBrake.percent: must be a number"},
		{"allow: [127.0.0.0/8", "allow: [127.0.0.1/8", "providers[0].addresses.allow[0]"},
		{"allow: [127.0.0.0/8", "allow: [127.0.0.1", `providers[0].addresses.allow[0]: Invalid value: "127.0.0.1": write an address with its length`},
		{"allow: [127.0.0.0/8", "allow: ['*.lb.example.com'", "providers[0].addresses.allow[0]"},
		{"allow: [127.0.0.0/8", "allow: ['::ffff:10.0.0.0/104'", "providers[0].addresses.allow[0]"},
		{"corp.example.com]", "Corp.example.com]", "providers[0].addresses.deny[1]"},
		{"corp.example.com]", "corp.example.com.]", "providers[0].addresses.deny[1]"},
		{"deny: [10.9.0.0/16", "deny: [010.9.0.0/16", "providers[0].addresses.deny[0]"},
		{"deny:", "denied:", `unknown field "providers[0].addresses.denied"`},
		{"corp.example.com]", strings.Repeat("a, ", 65) + "]", "providers[0].addresses.deny: Too many: 66"},
		{"corp.example.com]", strings.Repeat("a", 64) + "]", "providers[0].addresses.deny[1]: Too long"},
		{"http_send, store", "http_sent, store", "providers[0].capabilities[0]"},
		{"http_send, store", "store", "providers[0].capabilities"},
		{"percent: 5", "percent: 500", "deletionBrake.percent"},
		{"samplingRatePerMillion: 1000", "samplingRatePerMillion: 0", "tracing.samplingRatePerMillion"},
		{"localhost:4317", "https://collector:4317", "tracing.endpoint"},
		{"    configMap: {namespace: kube-system, name: cloud-provider}", "    directory: modules", "providers[0].source.directory"},
	} {
		text := read(t)
		if !strings.Contains(text, test.old) {
			t.Fatalf("the example has no %q", test.old)
		}
		_, err := validation.Decode([]byte(strings.Replace(text, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q instead of %q:\n%v\nwant %q", test.new, test.old, err, test.want)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats a password: %v", err)
		}
	}
}

// TestTokensOfEachRegion: a signer chooses the URL of its token request, so one
// entry may match the endpoints of all regions, as in grants.
func TestTokensOfEachRegion(t *testing.T) {
	text := strings.Replace(read(t), "https://identity.example.com/v3", "https://*.identity.example.com/v3", 1)
	if _, err := validation.Decode([]byte(text)); err != nil {
		t.Error(err)
	}
}

func TestEveryMistakeIsToldAtOnce(t *testing.T) {
	text := strings.NewReplacer("perSecond: 20", "perSecond: -1", "percent: 5", "percent: 0.5", "host: api.example.com", "host: ''").Replace(read(t))
	_, err := validation.Decode([]byte(strings.Replace(text, "percent: 0.5", "percent: 101", 1)))
	for _, want := range []string{"requests.perSecond", "deletionBrake.percent", "grants[0].host"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in: %v", want, err)
		}
	}
}

// TestExampleOfOpenStack: the configuration in the README of guests/openstack.
func TestExampleOfOpenStack(t *testing.T) {
	data, err := os.ReadFile("../../../../guests/openstack/example/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := validation.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Providers[0]; len(p.Grants) == 0 || len(p.Credentials) != 1 {
		t.Errorf("%+v", p)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(least))
	f.Add([]byte(read(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := validation.Decode(data)
		if (c == nil) == (err == nil) {
			t.Fatalf("configuration %v, error %v", c, err)
		}
	})
}
