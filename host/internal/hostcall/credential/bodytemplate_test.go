package credential

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/bodytemplate"
)

func parseBody(t testing.TB, contentType, text string) *bodytemplate.Template {
	t.Helper()
	template, err := bodytemplate.Parse(contentType, text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

const soapType = "text/xml; charset=utf-8"

// soapLogin is what vCenter's login is.
func soapLogin(t testing.TB) Spec {
	return Spec{
		PublicKeys: []string{"username"},
		BodyTemplate: &BodyTemplate{
			Placeholder: "the-host-has-it", Path: "/sdk", ContentType: soapType, Headers: map[string]string{"SOAPAction": "urn:vim25/8.0"},
			Body: parseBody(t, soapType, `<Envelope><Body><Login><userName>$(username)</userName><password>$(password)</password></Login></Body></Envelope>`),
		},
		Session: &Session{Cookie: "vmware_soap_session"},
	}
}

func soapSecrets() *fakeSecrets {
	return newFakeSecrets("username", `ccm@vsphere.local`, "password", `s3cr3t<&"in XML`)
}

const filledLogin = `<Envelope><Body><Login><userName>ccm@vsphere.local</userName><password>s3cr3t&lt;&amp;&#34;in XML</password></Login></Body></Envelope>`

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestTheBodyOfTheAdministratorIsSent: whatever a provider writes around the
// placeholder, what arrives is the template, filled, and said to be what it is.
func TestTheBodyOfTheAdministratorIsSent(t *testing.T) {
	set, _ := newTestSet(t, soapSecrets(), soapLogin(t))
	for name, body := range map[string]string{
		"as a client writes it": `<?xml version="1.0"?><x:Envelope><x:Body><Login><password>the-host-has-it</password></Login></x:Body></x:Envelope>`,
		"in another field":      `<Envelope><Body><Rename><newName>the-host-has-it</newName></Rename></Body></Envelope>`,
		"twice":                 `<Login>the-host-has-it the-host-has-it</Login>`,
		"in other text":         "xthe-host-has-itx",
		"large":                 strings.Repeat("x", 1<<20) + "the-host-has-it",
	} {
		t.Run(name, func(t *testing.T) {
			url, last := record(t)
			send(t, set, "", "POST", url+"/sdk", body, "SOAPAction", "urn:vim25/Rename", "Content-Type", "text/xml; charset=utf-7",
				"Content-Encoding", "gzip", "content_type", "text/plain", "Content-MD5", "x", "Digest", "x", "Repr-Digest", "x",
				"Authorization", "Basic x", "Cookie", "vmware_soap_session=mine", "User-Agent", "provider")
			if got := readAll(t, last.Body); got != filledLogin || last.ContentLength != int64(len(filledLogin)) {
				t.Errorf("%d bytes: %s", last.ContentLength, got)
			}
			want := map[string]string{"Soapaction": "urn:vim25/8.0", "Content-Type": soapType, "User-Agent": "provider", "Accept-Encoding": "gzip", "Content-Length": fmt.Sprint(len(filledLogin))}
			for name, values := range last.Header {
				if len(values) != 1 || values[0] != want[name] {
					t.Errorf("header %s: %q", name, values)
				}
				delete(want, name)
			}
			if len(want) > 0 {
				t.Errorf("missing: %v", want)
			}
		})
	}
}

// TestTheSecretGoesNowhereElse: to another method, path or query nothing is sent;
// without the placeholder the body is the provider's, to whatever is granted.
func TestTheSecretGoesNowhereElse(t *testing.T) {
	set, _ := newTestSet(t, soapSecrets(), soapLogin(t))
	for _, target := range []string{"PUT /sdk", "POST /sdk/", "POST /SDK", "POST /%73dk", "POST /sdk/vimService", "POST /upload", "POST /sdk?name=x", "POST /sdk?"} {
		method, path, _ := strings.Cut(target, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://cloud.example"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "?") {
			req.URL.ForceQuery = true
		}
		_, err = set.Apply(t.Context(), "cloud", "", req, []byte("<a>the-host-has-it</a>"))
		if target == "POST /sdk?" { // an empty query is none
			continue
		}
		refused(t, err, abi.CodeDenied, "the template is for POST /sdk")
	}
	url, last := record(t)
	send(t, set, "", "POST", url+"/other?x=y", "<a>the-host-has-nothing</a>", "Content-Type", "text/plain")
	if got := readAll(t, last.Body); got != "<a>the-host-has-nothing</a>" || last.Header.Get("Content-Type") != "text/plain" || last.Header.Get("Authorization") != "" {
		t.Errorf("got %q, %v", got, last.Header)
	}
}

// TestEachAttemptIsFilled: net/http sends a body again when a connection that it
// has reused is gone; the Secret may have changed between attempts of egress.
func TestEachAttemptIsFilled(t *testing.T) {
	secrets := soapSecrets()
	set, _ := newTestSet(t, secrets, soapLogin(t))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://cloud.example/sdk", strings.NewReader("the-host-has-it"))
	if err != nil {
		t.Fatal(err)
	}
	answered, err := set.Apply(t.Context(), "cloud", "", req, []byte("the-host-has-it"))
	if err != nil {
		t.Fatal(err)
	}
	answered(0, nil, nil)
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if first, second := readAll(t, req.Body), readAll(t, again); first != filledLogin || second != filledLogin {
		t.Errorf("first %q, then %q", first, second)
	}
	secrets.set("username", "u", "password", "another secret")
	url, last := record(t)
	send(t, set, "", "POST", url+"/sdk", "the-host-has-it")
	if got := readAll(t, last.Body); !strings.Contains(got, "<password>another secret<") {
		t.Errorf("after the Secret has changed: %s", got)
	}
}

// TestAWrongPasswordIsTriedSeldom: vCenter locks an account after five.
func TestAWrongPasswordIsTriedSeldom(t *testing.T) {
	status := http.StatusInternalServerError
	tries := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(readAll(t, r.Body), "<Login>") {
			tries++
		}
		w.WriteHeader(status)
	})
	secrets := soapSecrets()
	set, clock := newTestSet(t, secrets, soapLogin(t))
	now := start
	login := func() error {
		_, err := trySend(t, set, "", "POST", url+"/sdk", "the-host-has-it")
		return err
	}
	for range 300 { // a second each
		if err := login(); err != nil {
			refused(t, err, abi.CodeUnauthenticated, "the cloud answered 500 to the login")
		}
		send(t, set, "", "POST", url+"/sdk", "something else")
		now = now.Add(time.Second)
		clock.SetTime(now)
	}
	if tries != 6 { // after 0, 5, 15, 35, 75 and 155 seconds
		t.Errorf("tried %d times in five minutes", tries)
	}
	secrets.set("username", "u", "password", "the right one")
	status = http.StatusOK
	for range 3 {
		if err := login(); err != nil {
			t.Errorf("with a new Secret: %v", err)
		}
	}
	status = http.StatusServiceUnavailable
	for range 3 {
		if err := login(); err != nil {
			t.Errorf("a gateway's answer is not the cloud's: %v", err)
		}
	}
}
