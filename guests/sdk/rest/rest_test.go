package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/rest"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

type server struct{ Name string }

// api returns a client of a fake cloud.
func api(t *testing.T, cloud http.HandlerFunc) *rest.Client {
	t.Helper()
	h := sdktest.New(t)
	h.Time = 10 * time.Second
	h.HTTP = sdktest.Handler(cloud, map[string]string{"api-token": "Bearer open-sesame"})
	return rest.New(h.Op(), "https://api.example.com/v1/", "api-token")
}

func TestAnObjectThereAndBack(t *testing.T) {
	c := api(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer open-sesame" || r.Header.Get("X-Project") != "p1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Request", "r1")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(server{r.Method + " " + r.URL.Path + " " + string(body)})
	}).WithHeader("X-Project", "p1")
	var s server
	if err := c.Post("/servers", server{"a"}, &s); err != nil || s.Name != `POST /v1/servers {"Name":"a"}` {
		t.Errorf("%q, %v", s.Name, err)
	}
	if err := c.Put("/servers/"+rest.Segment("a/b"), server{"b"}, &s); err != nil || s.Name != `PUT /v1/servers/a/b {"Name":"b"}` {
		t.Errorf("%q, %v", s.Name, err)
	}
	if err := errors.Join(c.Patch("/servers/a", server{"b"}, nil), c.Delete("/servers/a")); err != nil {
		t.Error(err)
	}
	calls := []*rest.Call{{Path: "/a", Out: &server{}}, {Path: "/b", Out: &server{}}}
	if errs := c.Do(calls...); errors.Join(errs...) != nil || calls[1].Out.(*server).Name != "GET /v1/b " || calls[0].Header["x-request"] != "r1" {
		t.Errorf("%v, %v", errs, calls[0])
	}
}

// Each status has the manager's code for it, and the cloud's message.
func TestRefusals(t *testing.T) {
	const html = "<html><title>nginx</title></html>"
	for _, test := range []struct {
		status   int
		body     string
		code     abi.Code
		notFound bool
		want     string
	}{
		{400, `{"message": "no such size"}`, abi.CodeInvalid, false, "GET api.example.com/v1/x: the cloud answers 400 Bad Request: no such size"},
		{401, ``, abi.CodeUnauthenticated, false, "check the Secret"},
		{403, `{"error": {"code": 7, "message": "quota"}}`, abi.CodeInternal, false, "403 Forbidden: quota;"},
		{404, ``, abi.CodeNotFound, true, "404 Not Found"},
		{404, `{"errors": [{"detail": "gone"}]}`, abi.CodeNotFound, true, "gone"},
		{410, `{}`, abi.CodeNotFound, true, ""},
		{404, html, abi.CodeUnavailable, false, "a page of HTML"},
		{409, `{"error": "busy"}`, abi.CodeConflict, false, "busy"},
		{423, ``, abi.CodeConflict, false, "Locked"},
		{429, ``, abi.CodeThrottled, false, ""},
		{500, html, abi.CodeInternal, false, "a page of HTML"},
		{502, ``, abi.CodeUnavailable, false, ""},
		{503, ``, abi.CodeThrottled, false, ""},
		{302, ``, abi.CodeInternal, false, "302"},
		{500, strings.Repeat("long\n", 1000), abi.CodeInternal, false, "..."},
	} {
		c := api(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		err := c.Get("/x?secret=1", &server{})
		if sdk.CodeOf(err) != test.code || rest.IsNotFound(err) != test.notFound || rest.StatusOf(err) != test.status {
			t.Errorf("%d %s: %v, code %v", test.status, test.body, err, sdk.CodeOf(err))
			continue
		}
		if text := err.Error(); !strings.Contains(text, test.want) || len(text) > 1000 || strings.Contains(text, "secret") || strings.Contains(text, "\n") {
			t.Errorf("%d: %s", test.status, text)
		}
		if (rest.IgnoreNotFound(err) == nil) != test.notFound || rest.IsConflict(err) != (test.code == abi.CodeConflict) {
			t.Errorf("%d: %v", test.status, rest.IgnoreNotFound(err))
		}
	}
}

// The error of a redirect names its target without the rest of the URL: a query
// and a user may hold a secret.
func TestARedirectIsTold(t *testing.T) {
	for location, want := range map[string]string{
		"https://login.example.com/saml/start?token=secret#secret": "it redirects to login.example.com/saml/start",
		"https://secret:secret@other.example.com:8443/v2":          "it redirects to other.example.com:8443/v2",
		"//other.example.com/v2":                                   "it redirects to other.example.com/v2",
		"/v2/x?secret=1":                                           "it redirects to /v2/x",
		"https://api.example.com/a b" + strings.Repeat("d", 999):   "it redirects to",
		"": "302 Found", "mailto:secret": "302 Found", "https://[secret": "302 Found", "http://%zzsecret/": "302 Found", "https://secret.example.com/\n": "302 Found",
	} {
		c := api(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Location"] = []string{location}
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, "see "+location)
		})
		err := c.Get("/x", &server{})
		if text := err.Error(); sdk.CodeOf(err) != abi.CodeInternal || !strings.Contains(text, want) || strings.Contains(text, "secret") || len(text) > 1000 || strings.Contains(text, "\n") {
			t.Errorf("%s: %s", location, text)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0": time.Second, "4000000000": time.Hour, "99999999999999999999": 0, "-1": 0, "soon": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		c := api(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		var e *abi.Error
		if err := c.Get("/x", nil); !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
}

// An unreadable answer is never an empty one.
func TestBrokenAnswers(t *testing.T) {
	for name, body := range map[string]string{"empty": "", "html": "<html>", "cut": `{"Name":`, "a list": "[]", "scrubbed": `{"Name":"[scrubbed:token]"}`} {
		c := api(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if err := c.Get("/x", &server{}); sdk.CodeOf(err) != abi.CodeInternal || rest.IsNotFound(err) || !strings.Contains(err.Error(), "GET api.example.com/v1/x: the cloud's answer cannot be used") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer without the member is an error: an absent ID would pass for a task
// that is done.
func TestItem(t *testing.T) {
	c := api(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"operation":{"id":"op-7","none":null},"server":{"Name":"a"}}`)
	})
	var id string
	var s server
	errs := c.Do(&rest.Call{Method: "DELETE", Path: "/x", Item: "operation.id", Out: &id}, &rest.Call{Path: "/x", Item: "server", Out: &s})
	if err := errors.Join(errs...); err != nil || id != "op-7" || s.Name != "a" {
		t.Errorf("%q, %q, %v", id, s.Name, err)
	}
	for _, item := range []string{"operation_id", "operation.none", "server.Name.x"} {
		want := `it has no member "` + item + `"; it begins with "{`
		if err := c.Do(&rest.Call{Path: "/x", Item: item, Out: &id})[0]; sdk.CodeOf(err) != abi.CodeInternal || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", item, err)
		}
	}
}

func TestAnEmptyIDIsNoList(t *testing.T) {
	c := api(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") })
	for _, path := range []string{"/servers/", "servers", "/servers//disks", "/servers/?x=1"} {
		if err := c.Get(path, nil); sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestPages(t *testing.T) {
	const last = 4
	clouds := map[string]struct {
		paging rest.Paging
		answer func(w http.ResponseWriter, page int, items string)
	}{
		"token": {rest.Paging{Items: "servers", Param: "page_token", Next: "next"}, func(w http.ResponseWriter, page int, items string) {
			fmt.Fprintf(w, `{"servers": %s, "next": "%s"}`, items, []string{"", "2", "3", "4", ""}[page])
		}},
		"number": {rest.Paging{Items: "servers", Param: "page", Next: "meta.next"}, func(w http.ResponseWriter, page int, items string) {
			fmt.Fprintf(w, `{"servers": %s, "meta": {"next": %s}}`, items, []string{"", "2", "3", "4", "null"}[page])
		}},
		"last": {rest.Paging{Items: "data", Param: "page", Last: "pages"}, func(w http.ResponseWriter, _ int, items string) {
			fmt.Fprintf(w, `{"data": %s, "pages": %d}`, items, last)
		}},
		"until empty": {rest.Paging{Param: "page"}, func(w http.ResponseWriter, _ int, items string) { _, _ = io.WriteString(w, items) }},
		"link": {rest.Paging{Link: true}, func(w http.ResponseWriter, page int, items string) {
			if page < last {
				w.Header().Set("Link", fmt.Sprintf(`<https://other.example.com/x?page=%d&limit=2>; rel="next", <https://x?page=1>; rel="first"`, page+1))
			}
			_, _ = io.WriteString(w, items)
		}},
		"url": {rest.Paging{Items: "data.list", Next: "data.next"}, func(w http.ResponseWriter, page int, items string) {
			next := fmt.Sprintf(`"http://internal:8080/servers?page=%d&limit=2"`, page+1)
			if page == last {
				next = `""`
			}
			fmt.Fprintf(w, `{"data": {"list": %s, "next": %s}}`, items, next)
		}},
	}
	for name, cloud := range clouds {
		t.Run(name, func(t *testing.T) {
			c := api(t, func(w http.ResponseWriter, r *http.Request) {
				page, _ := strconv.Atoi(r.URL.Query().Get("page") + r.URL.Query().Get("page_token"))
				page = max(page, 1)
				if r.URL.Path != "/v1/servers" || r.URL.Query().Get("limit") != "2" {
					t.Errorf("asked for %s", r.URL)
				}
				items := "[]"
				if page <= last {
					items = fmt.Sprintf(`[{"name": "%da"}, {"name": "%db"}]`, page, page)
				}
				cloud.answer(w, page, items)
			})
			all, err := rest.List[server](c, "/servers"+rest.Query("limit", "2"), cloud.paging)
			if err != nil || len(all) != 2*last || all[7].Name != "4b" {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}

// An empty list has no page, or an empty page.
func TestEmptyLists(t *testing.T) {
	for _, last := range []int{0, 1} {
		c := api(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data": [], "pages": %d}`, last) })
		if all, err := rest.List[server](c, "/servers", rest.Paging{Items: "data", Param: "page", Last: "pages"}); err != nil || len(all) != 0 {
			t.Errorf("last %d: %v, %v", last, all, err)
		}
	}
}

func TestListsThatAreNone(t *testing.T) {
	paging := rest.Paging{Items: "servers", Param: "page", Next: "next"}
	for name, test := range map[string]struct{ body, want string }{
		"no list":   {`{}`, `no list "servers"`},
		"null":      {`{"servers": null}`, `no list "servers"`},
		"an object": {`{"servers": {}}`, `no list "servers"`},
		"not JSON":  {`<html>`, "cannot be used"},
		"endless":   {`{"servers": [], "next": 2}`, "do not end"},
		"long":      {`{"servers": [], "next": "` + strings.Repeat("x", 5000) + `"}`, "too long"},
	} {
		c := api(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, test.body) })
		if all, err := rest.List[server](c, "/servers", paging); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	page := 0
	c := api(t, func(w http.ResponseWriter, _ *http.Request) {
		page++
		fmt.Fprintf(w, `{"servers": [], "next": %d}`, page+1)
	})
	if _, err := rest.List[server](c, "/servers", paging); err == nil || page > 1000 {
		t.Errorf("%d pages: %v", page, err)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(200, `{"servers": [{"name": "a"}], "next": "2"}`, `<https://x?page=2>; rel="next"`)
	f.Add(404, `{"errors": [{}]}`, "")
	f.Add(429, `{"errors": [null, 1]}`, ",;")
	f.Fuzz(func(t *testing.T, status int, body, header string) {
		if status < 200 || status > 599 {
			return
		}
		asked := 0
		c := api(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Link", header)
			w.Header().Set("Retry-After", header)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		for _, p := range []rest.Paging{{Items: "servers", Param: "page", Next: "next"}, {Link: true}, {Items: "data", Param: "p", Last: "pages"}} {
			if _, err := rest.List[server](c, "/servers", p); err != nil && len(err.Error()) > 2000 {
				t.Errorf("%d bytes of error", len(err.Error()))
			}
		}
		if asked > 2000 {
			t.Errorf("asked %d times", asked)
		}
	})
}
