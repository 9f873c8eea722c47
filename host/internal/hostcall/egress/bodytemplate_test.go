package egress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/bodytemplate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// passwords is credential.Secrets of one password.
type passwords string

func (p passwords) Get(context.Context, string, string) (map[string][]byte, string, error) {
	return map[string][]byte{"password": []byte(p)}, string(p), nil
}

// loginSet has the credential "token", which fills a JSON login for POST /login.
func loginSet(t *testing.T) *credential.Set {
	t.Helper()
	body, err := bodytemplate.Parse("application/json", `{"password":"$(password)"}`)
	if err != nil {
		t.Fatal(err)
	}
	set, err := credential.NewSet(passwords("s3cret-word"), []credential.Spec{{
		Name: "token", Secret: types.NamespacedName{Namespace: "ns", Name: "s"}, Session: &credential.Session{Cookie: "sid"},
		BodyTemplate: &credential.BodyTemplate{Placeholder: "the-host-has-it", Path: "/login", ContentType: "application/json", Body: body},
	}}, credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestAFilledBodyStaysWithItsHost: of what follows a login, only the login itself
// has the secret, and each attempt at it.
func TestAFilledBodyStaysWithItsHost(t *testing.T) {
	const filled, own = `{"password":"s3cret-word"}`, `{"pw":"the-host-has-it"}`
	for name, test := range map[string]struct {
		answers []int
		to      string
		want    []string
		code    abi.Code
	}{
		"an answer":              {[]int{200}, "", []string{"cloud.example/login " + filled}, abi.CodeOK},
		"no answer":              {[]int{0, 200}, "", []string{"cloud.example/login " + filled}, abi.CodeUnavailable},
		"to itself":              {[]int{307, 200}, "/login", []string{"cloud.example/login " + filled, "cloud.example/login " + filled}, abi.CodeOK},
		"to another path":        {[]int{307, 200}, "/echo", []string{"cloud.example/login " + filled}, abi.CodeDenied},
		"to another host":        {[]int{307, 200}, "http://other.example/login", []string{"cloud.example/login " + filled, "other.example/login " + own}, abi.CodeOK},
		"to another port":        {[]int{308, 200}, "http://cloud.example:8080/login", []string{"cloud.example/login " + filled, "cloud.example:8080/login " + own}, abi.CodeOK},
		"to a page after it":     {[]int{303, 200}, "/home", []string{"cloud.example/login " + filled, "cloud.example/home "}, abi.CodeOK},
		"to a host not granted":  {[]int{307, 200}, "http://evil.example/login", []string{"cloud.example/login " + filled}, abi.CodeDenied},
		"to a path with a query": {[]int{307, 200}, "/login?echo=1", []string{"cloud.example/login " + filled}, abi.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					seen = append(seen, fmt.Sprintf("%s%s %s", r.Host, r.URL.Path, body))
					status := test.answers[min(len(seen), len(test.answers))-1]
					if status == 0 {
						panic(http.ErrAbortHandler)
					}
					http.SetCookie(w, &http.Cookie{Name: "sid", Value: "the-real-session"})
					w.Header().Set("Location", test.to)
					w.WriteHeader(status)
					_, _ = fmt.Fprintf(w, "%s the-real-session", body)
				})
				client := cloud.client(t, egress.Options{Credentials: loginSet(t)}, cloudURL, "http://other.example/", "http://cloud.example:8080/")
				got := sendOne(t, client, &abi.HttpRequest{Method: "POST", Url: cloudURL + "login", Body: []byte(own), Credential: "token", FollowRedirects: 3})
				if abi.Code(got.Code) != test.code || !slices.Equal(seen, test.want) {
					t.Errorf("%s\nseen %q\nwant %q", show(got), seen, test.want)
				}
				all := show(got)
				if strings.Contains(all, "s3cret-word") || strings.Contains(all, "the-real") && !strings.Contains(test.to, "://") {
					t.Errorf("the provider gets %s", all)
				}
				if length := header(got, "Content-Length"); length != "" && length != fmt.Sprint(len(responseOf(got).Body)) {
					t.Errorf("Content-Length: %s", all)
				}
			})
		})
	}
}

// TestWhatACredentialTakesOutOfAnAnswer: it sees the whole body, whose hashes and
// length then say nothing, and what it makes of it is charged.
func TestWhatACredentialTakesOutOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", "hash")
			_, _ = io.WriteString(w, "session")
		})
		for size, want := range map[int]abi.Code{4: abi.CodeOK, 5000: abi.CodeTooLarge} {
			fake := credentials{answered: func(status int, h http.Header, body []byte) []byte {
				h.Set("Seen", fmt.Sprintf("%d %s", status, body))
				return []byte(strings.Repeat("x", size))
			}}
			client := cloud.client(t, egress.Options{Credentials: fake, MaxBatchBytes: 1000}, cloudURL)
			got := sendOne(t, client, withCredential("token"))
			wantCode(t, got, want, "")
			if want == abi.CodeOK && (string(responseOf(got).Body) != "xxxx" || header(got, "Seen") != "200 session" || header(got, "ETag") != "" || header(got, "Content-Length") != "4") {
				t.Error(show(got))
			}
		}
	})
}
