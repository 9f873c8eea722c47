package main

import (
	"strings"
	"testing"
)

// Texts that look like secrets are removed, and their surroundings stay.
func TestRedactLooks(t *testing.T) {
	for text, want := range map[string]string{
		"GET https://me:s3cr3t@example.com/v1?sig=s3cr3t&x=1 failed":                "GET https://[scrubbed]@example.com/v1?[scrubbed] failed",
		"https://s3cr3t@example.com/":                                               "https://[scrubbed]@example.com/",
		`Get "/v1/x?key=s3cr3t": EOF`:                                               `Get "/v1/x?[scrubbed]": EOF`,
		"sent Bearer s3cr3t-one to it":                                              "sent Bearer [scrubbed] to it",
		"Authorization: Basic s3cr3t==, and more":                                   "Authorization: [scrubbed]",
		"a\nCookie: a=s3cr3t; b=s3cr3t\nc":                                          "a\nCookie: [scrubbed]\nc",
		"X-Auth-Token: s3cr3t\nnext":                                                "X-Auth-Token: [scrubbed]\nnext",
		"password=s3cr3t user=me":                                                   "password=[scrubbed] user=me",
		`password="s3cr3t with words" user=me`:                                      `password=[scrubbed] user=me`,
		`{"client_secret":"s3cr3t","a":1}`:                                          `{"client_secret":[scrubbed],"a":1}`,
		`"{\"apiKey\":\"s3cr3t\"}"`:                                                 `"{\"apiKey\":[scrubbed]}"`,
		"clientSecret: s3cr3t":                                                      "clientSecret: [scrubbed]",
		"AWS_SECRET_ACCESS_KEY=s3cr3t":                                              "AWS_SECRET_ACCESS_KEY=[scrubbed]",
		"key AKIAABCDEFGHIJKLMNOP is":                                               "key [scrubbed] is",
		"t eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln .":                              "t [scrubbed] .",
		"-----BEGIN RSA PRIVATE KEY-----\ns3cr3t\n-----END RSA PRIVATE KEY-----\nx": "[scrubbed]\nx",
		"-----BEGIN PRIVATE KEY-----\ns3cr3t":                                       "[scrubbed]",
		// No secrets.
		"secret: {namespace: kube-system, name: cloud}":                    "secret: {namespace: kube-system, name: cloud}",
		`"credentials": ["cloud"]`:                                         `"credentials": ["cloud"]`,
		"lb_ensure default/web: no pool of this name (404)":                "lb_ensure default/web: no pool of this name (404)",
		"kubectl -n kube-system get secret cloud-token":                    "kubectl -n kube-system get secret cloud-token",
		`wasm_ccm_cloud_request_duration_seconds_sum{path="/v1/lb/*"} 0.1`: `wasm_ccm_cloud_request_duration_seconds_sum{path="/v1/lb/*"} 0.1`,
	} {
		if got := string((&redactor{}).clean([]byte(text))); got != want {
			t.Errorf("%q\nbecomes %q,\nwant    %q", text, got, want)
		}
	}
}

// Values of Secrets are removed everywhere, including parts of a document of
// any syntax.
func TestRedactKnownValues(t *testing.T) {
	r := &redactor{}
	for _, value := range []string{
		"hunter2-is-the-value\n", "q7Zk", "auth:\n  user: correct-horse\n  pin: 84713\n---\nsecond: battery-staple\n",
		"[Global]\npassword = Tr0ub4dor\nkey=x9Qw!", `{"password": "j5Nq2"}`,
		`{"auths":{"r.example.com":{"auth":"bWU6czNjcjN0"}}}`, "true",
	} {
		r.know([]byte(value))
	}
	text := "a hunter2-is-the-value b correct-horse c aHVudGVyMi1pcy10aGUtdmFsdWU= d 68756e746572322d69732d7468652d76616c7565 e bWU6czNjcjN0 " +
		"g q7Zk h 84713 i battery-staple j Tr0ub4dor k x9Qw! l j5Nq2 m s3cr3t f true"
	got := string(r.clean([]byte(text)))
	for _, secret := range []string{"hunter2", "horse", "aHVudGVy", "68756e", "bWU6", "q7Zk", "84713", "staple", "Tr0ub", "x9Qw", "j5Nq2", "s3cr3t"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is in %s", secret, got)
		}
	}
	if !strings.HasSuffix(got, "f true") {
		t.Errorf("%s", got)
	}
}
