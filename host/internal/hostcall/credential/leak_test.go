package credential

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// The secret has what needs escaping, in every scheme.
const leakSecret = `p4ss&w"o<r>d/+%41=é`

const leakPlaceholder = "the.host.has.it"

// leakTypes has each type with a Secret that holds leakSecret.
func leakTypes(t *testing.T) map[string]Spec {
	token := serve(t, func(w http.ResponseWriter, r *http.Request) {
		reply(t, w, map[string]any{"access_token": "oauth-access-token-0123456789", "token_type": "bearer"})
	})
	hmac := signerFunc(func(_ context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
		if req.Request.Method == http.MethodDelete {
			return nil, &abi.Error{Code: abi.CodeUnauthenticated, Message: "cannot sign with " + string(req.Secret[0].Value)}
		}
		return &abi.SignResponse{Done: true, State: []byte("signers-own-state"),
			Headers: pair("Authorization", "HMAC signers-computed-token"),
			Query:   pair("signature", "signers/computed+signature==")}, nil
	})
	return map[string]Spec{
		"header": {Header: &Header{Name: "X-Key", Prefix: "K ", Key: "a"}},
		"basic":  {Basic: &Basic{UsernameKey: "user", PasswordKey: "a"}, PublicKeys: []string{"user"}},
		"bearer": {Bearer: &Bearer{Key: "a"}},
		"query":  {Query: &Query{Param: "key", Key: "a"}},
		"oauth2": {OAuth2: &OAuth2ClientCredentials{TokenURL: token, ClientIDKey: "user", ClientSecretKey: "a", Transport: http.DefaultTransport}},
		"sigV4":  {AWSSigV4: &AWSSigV4{AccessKeyIDKey: "user", SecretAccessKeyKey: "b", SessionTokenKey: "a", Region: "r", Service: "s"}},
		"signer": {Signer: &SignerSpec{Signer: hmac}, PublicKeys: []string{"user"}},
		"bodyTemplate": {BodyTemplate: &BodyTemplate{Placeholder: leakPlaceholder, Method: "GET", Path: "/", ContentType: "application/json",
			Body: parseBody(t, "application/json", `{"name": "$(user)", "password": "$(a)"}`)}, PublicKeys: []string{"user"}},
	}
}

// leakPlaces are where a server can put what it was sent.
func leakPlaces(t *testing.T) map[string]func(w http.ResponseWriter, sent string) {
	body := func(encode func(string) string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, sent string) {
			if _, err := io.WriteString(w, encode(sent)); err != nil {
				t.Error(err)
			}
		}
	}
	return map[string]func(http.ResponseWriter, string){
		"body":              body(func(s string) string { return s }),
		"body in base64":    body(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
		"body in base64, 1": body(func(s string) string { return base64.URLEncoding.EncodeToString([]byte("x" + s)) }),
		"body in base64, 2": body(func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte("xy" + s)) }),
		"body in hex":       body(func(s string) string { return hex.EncodeToString([]byte(s)) }),
		"body in JSON":      body(func(s string) string { return jsonString(t, s) }),
		"body in URL":       body(url.QueryEscape),
		"body in path":      body(url.PathEscape),
		"body in HTML":      body(html.EscapeString),
		"header":            func(w http.ResponseWriter, s string) { w.Header().Set("X-Echo", strings.ReplaceAll(s, "\n", " ")) },
		"header in base64": func(w http.ResponseWriter, s string) {
			w.Header().Set("ETag", base64.StdEncoding.EncodeToString([]byte(s)))
		},
		"redirect's Location": func(w http.ResponseWriter, s string) {
			w.Header().Set("Location", "/login?"+url.QueryEscape(s))
			w.WriteHeader(http.StatusFound)
		},
	}
}

// TestWhereItCouldLeak sends with each type to a server that repeats all that
// it was sent, in each place.
func TestWhereItCouldLeak(t *testing.T) {
	for kind, spec := range leakTypes(t) {
		for place, put := range leakPlaces(t) {
			t.Run(kind+"/"+place, func(t *testing.T) {
				var sent string
				server := serve(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					sent = r.URL.RawQuery + "\n" + string(body) + "\n"
					for _, name := range []string{"Authorization", "X-Key", "X-Amz-Security-Token"} {
						sent += r.Header.Get(name) + "\n"
					}
					put(w, sent)
				})
				set, _ := newTestSet(t, newFakeSecrets("a", leakSecret, "b", "the other secret", "user", "ccm-user"), spec)
				got := send(t, set, "", "GET", server+"/", leakPlaceholder)
				var raw bytes.Buffer
				if err := got.header.Write(&raw); err != nil {
					t.Fatal(err)
				}
				out := string(set.Scrub(raw.Bytes())) + string(set.Scrub([]byte(got.body)))
				if !strings.Contains(out, "[scrubbed:cloud]") {
					t.Fatalf("nothing is scrubbed of what repeats %q: %q", sent, raw.String()+got.body)
				}
				mustNotHold(t, out)
			})
		}
	}
}

// mustNotHold looks for what leakTypes has or computes, in all encodings.
func mustNotHold(t *testing.T, out string) {
	t.Helper()
	secrets := []string{leakSecret, "the other secret", "oauth-access-token-0123456789", "signers-computed-token", "signers/computed+signature==", "signers-own-state"}
	forms := encodings(t)
	for _, secret := range secrets {
		for _, how := range []string{"base64 std", "base64 url", "query", "path", "JSON", "HTML", "hex"} {
			if form := strings.Trim(forms[how](secret), `"=`); strings.Contains(readable(out), form) {
				t.Errorf("%q holds %q in %s", out, secret, how)
			}
		}
		if strings.Contains(readable(out), secret) {
			t.Errorf("%q holds %q", out, secret)
		}
	}
	for _, name := range []string{"ccm-user:", "user:"} {
		if strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(name + leakSecret))[:24]) {
			t.Errorf("%q holds basic authentication", out)
		}
	}
}

// TestErrorsDoNotLeak has everything fail that can, with a secret in hand.
func TestErrorsDoNotLeak(t *testing.T) {
	types := leakTypes(t)
	bad := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		if err := json.NewEncoder(w).Encode(map[string]string{"error": leakSecret, "error_description": r.Header.Get("Authorization")}); err != nil {
			t.Error(err)
		}
	})
	tests := map[string]struct {
		spec   Spec
		value  string
		method string
	}{
		"an invalid header":    {types["bearer"], leakSecret + "\n\x00" + leakSecret, "GET"},
		"an invalid prefix":    {types["header"], leakSecret + "\x00", "GET"},
		"a large value":        {types["query"], strings.Repeat(leakSecret, 2000), "GET"},
		"a token endpoint":     {Spec{OAuth2: &OAuth2ClientCredentials{TokenURL: bad, ClientIDKey: "user", ClientSecretKey: "a", Transport: http.DefaultTransport}}, leakSecret, "GET"},
		"no token endpoint":    {Spec{OAuth2: &OAuth2ClientCredentials{TokenURL: "http://127.0.0.1:1/", ClientIDKey: "user", ClientSecretKey: "a", Transport: http.DefaultTransport}}, leakSecret, "GET"},
		"an error of a signer": {types["signer"], leakSecret, "DELETE"},
		"a value not in JSON":  {types["bodyTemplate"], leakSecret + "\xff", "GET"},
		"another method":       {types["bodyTemplate"], leakSecret, "POST"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set, _ := newTestSet(t, newFakeSecrets("a", test.value, "user", "ccm-user"), test.spec)
			_, err := trySend(t, set, "", test.method, "http://127.0.0.1:1/", leakPlaceholder)
			if err == nil {
				t.Fatal("it did not fail")
			}
			mustNotHold(t, err.Error()+fmt.Sprintf("%+v %#v", err, err))
		})
	}
}

// TestPrintingDoesNotLeak prints everything with everything.
func TestPrintingDoesNotLeak(t *testing.T) {
	for kind, spec := range leakTypes(t) {
		t.Run(kind, func(t *testing.T) {
			set, _ := newTestSet(t, newFakeSecrets("a", leakSecret, "b", "the other secret", "user", "ccm-user"), spec)
			url, _ := record(t)
			send(t, set, "", "GET", url+"/", leakPlaceholder)
			var out bytes.Buffer
			log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))
			plain := slog.New(slog.NewJSONHandler(&out, nil))
			for _, v := range []any{set, set.scrubber, *set.scrubber.current[owner{set, "cloud/secret"}][0], spec, &spec, []Spec{spec}, struct{ S Spec }{spec},
				set.credentials["cloud"].method, values{"a": leakSecret}, &call{values: values{"a": leakSecret}}} {
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
					fmt.Fprintf(&out, verb+"\n", v)
				}
				encoded, err := json.Marshal(v)
				fmt.Fprintln(&out, string(encoded), err)
				log.Info("printing", "value", v, "text", klog.Format(v))
				plain.Info("printing", "value", v)
			}
			mustNotHold(t, out.String())
			for _, form := range []string{fmt.Sprintf("%d", []byte(leakSecret)), fmt.Sprintf("%#v", []byte(leakSecret)), fmt.Sprintf("%q", leakSecret)} {
				if strings.Contains(out.String(), strings.Trim(form, "[]")) {
					t.Errorf("the log holds %s", form)
				}
			}
			if want := "credential cloud (" + set.credentials["cloud"].spec.Type(); kind != "signer" && !strings.Contains(fmt.Sprintf("%+v", set.credentials["cloud"].spec), want) {
				t.Errorf("a Spec is printed without its name and type: %+v", set.credentials["cloud"].spec)
			}
		})
	}
}
