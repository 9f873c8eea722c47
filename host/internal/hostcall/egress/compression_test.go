package egress_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

func TestCompression(t *testing.T) {
	text := strings.Repeat("body ", 100)
	answer := func(encoding string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			w.Header().Set("X-Asked", strings.Join(r.Header["Accept-Encoding"], ";"))
			_, _ = w.Write(body)
		}
	}
	gzip := func(name, value string) *abi.HttpRequest { return withHeader(cloudURL, name, value) }
	for name, test := range map[string]struct {
		handler               http.HandlerFunc
		request               *abi.HttpRequest
		body, encoding, asked string
		length                string
	}{
		"the host's":     {answer("gzip", gzipped(text)), get(cloudURL), text, "", "gzip", "500"},
		"upper case":     {answer("GZIP", gzipped(text)), get(cloudURL), text, "", "gzip", "500"},
		"two members":    {answer("gzip", append(gzipped("a"), gzipped("b")...)), get(cloudURL), "ab", "", "gzip", "2"},
		"the provider's": {answer("gzip", gzipped(text)), gzip("accept-encoding", "br"), text, "", "gzip", "500"},
		"none":           {answer("identity", []byte(text)), gzip("Accept-Encoding", "identity"), text, "identity", "gzip", "500"},
		"HEAD":           {answer("gzip", gzipped(text)), request("HEAD", cloudURL), "", "gzip", "identity", ""},
		"no body":        {answer("gzip", nil), get(cloudURL), "", "gzip", "gzip", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := sendOne(t, newCloud(t, test.handler).client(t, egress.Options{}, cloudURL), test.request)
				if got.Code != 0 || string(responseOf(got).Body) != test.body || header(got, "Content-Encoding") != test.encoding || header(got, "X-Asked") != test.asked {
					t.Errorf("got %v", show(got))
				}
				if length := header(got, "Content-Length"); test.length != "" && length != test.length {
					t.Errorf("Content-Length %s, want %s", length, test.length)
				}
			})
		})
	}
}

func TestDamagedCompression(t *testing.T) {
	whole := gzipped("some text")
	for name, body := range map[string][]byte{"not gzip": []byte("plain text"), "cut": whole[:len(whole)-4], "wrong sum": append(whole[:len(whole)-8:len(whole)-8], 1, 2, 3, 4, 9, 0, 0, 0)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newCloud(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Encoding", "gzip")
					_, _ = w.Write(body)
				}).client(t, egress.Options{}, cloudURL)
				wantCode(t, sendOne(t, client, get(cloudURL)), abi.CodeUnavailable, "read the body")
			})
		})
	}
}
