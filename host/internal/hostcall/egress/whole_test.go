package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf16"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// TestHeadersThatAskForParts: a page that repeats requests would give a secret of
// an earlier request in pieces, or answer guesses of its hash. The request need not
// name a credential for that.
func TestHeadersThatAskForParts(t *testing.T) {
	anywhere := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	reads := []string{"GET", "HEAD", "OPTIONS", "REPORT"}
	for _, test := range []struct {
		methods []string
		headers map[string]string
		want    string
	}{
		{anywhere, map[string]string{
			"Range": "bytes=0-3", "range": "bytes=0-3", "Request-Range": "bytes=0-3", "X-Ms-Range": "bytes=0-3", "x_ms_range": "bytes=0-3",
			"X-Amz-Copy-Source-Range": "bytes=0-3", "If-Range": `"x"`, "Content-Range": "bytes 0-3/9", "Accept-Ranges": "bytes", "X-Range": "0-3",
			"A-IM": "vcdiff", "IM": "feed", "Delta-Base": `"x"`, "Accept-Charset": "utf-16", "X-Accept-Encoding": "br", "Accept-Content-Encoding": "br",
			"Accept-Transfer-Encoding": "gzip", "Content-Transfer-Encoding": "base64",
			"Available-Dictionary": ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:", "Dictionary-ID": "x",
			"Want-Digest": "md5", "Want-Content-Digest": "md5=1", "Want-Repr-Digest": "md5=1",
		}, "without this header"},
		{anywhere, map[string]string{"TE": "trailers", "Trailer": "x", "Expect": "100-continue", "Upgrade": "h2c", "Transfer-Encoding": "gzip"}, "it controls the connection"},
		{anywhere, map[string]string{"If": `(["a"])`, "If-Schedule-Tag-Match": `"a"`, "If-Unless": "x", "Unless-Modified-Since": "x", "X-Amz-Copy-Source-If-Match": "x"}, "of conditions only"},
		{reads, map[string]string{
			"If-Match": `"a"`, "If-None-Match": "*", "If_None_Match": "*", "If-Modified-Since": "x", "If-Unmodified-Since": "x",
		}, "conditions are for"},
		{[]string{"PUT", "POST"}, map[string]string{"If-Match": `"a", "b"`, "If-None-Match": `W/"a","b"`, "if-match": "a,b"}, "one entity tag"},
	} {
		for _, method := range test.methods {
			for name, value := range test.headers {
				synctest.Test(t, func(t *testing.T) {
					cloud := newCloud(t, status(200))
					g := grant(t, cloudURL)
					g.Methods = append(anywhere, reads...)
					for _, options := range []egress.Options{{}, {Credentials: withToken()}} {
						client := newClient(t, options, g)
						egress.ConnectBy(client, cloud.connect)
						got := sendOne(t, client, &abi.HttpRequest{Method: method, Url: cloudURL, Headers: []*abi.HttpHeader{{Name: name, Value: value}}})
						if abi.Code(got.Code) != abi.CodeInvalid || !strings.Contains(errorOf(got).Message, test.want) || cloud.requests.Load() != 0 {
							t.Errorf("%s with %s: %s: %s, %d requests", method, name, value, show(got), cloud.requests.Load())
						}
					}
				})
			}
		}
	}
}

// TestConditionalWritesPass: those of Neutron (revision_number), of Azure and of
// others that have entity tags.
func TestConditionalWritesPass(t *testing.T) {
	for _, value := range []string{`"a,b"`, `W/"a"`, "*", "revision_number=7", "42a"} {
		for _, name := range []string{"If-Match", "If-None-Match"} {
			for _, method := range []string{"PUT", "PATCH", "POST", "DELETE"} {
				synctest.Test(t, func(t *testing.T) {
					client := newCloud(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get(name)) }).
						client(t, egress.Options{Credentials: withToken()}, cloudURL)
					got := sendOne(t, client, &abi.HttpRequest{Method: method, Url: cloudURL, Headers: []*abi.HttpHeader{{Name: name, Value: value}}})
					if string(responseOf(got).Body) != value {
						t.Errorf("%s with %s: %s: %s", method, name, value, show(got))
					}
				})
			}
		}
	}
}

// TestSignersAskForNoParts: a signer is a guest, too.
func TestSignersAskForNoParts(t *testing.T) {
	for _, name := range []string{"Range", "X-Ms-Range", "A-Im", "If-None-Match"} {
		synctest.Test(t, func(t *testing.T) {
			cloud := newCloud(t, status(200))
			fake := credentials{apply: func(_, _ string, req *http.Request, _ []byte) error { req.Header.Set(name, "x"); return nil }}
			got := sendOne(t, cloud.client(t, egress.Options{Credentials: fake}, cloudURL), &abi.HttpRequest{Method: "GET", Url: cloudURL, Credential: "token"})
			if abi.Code(got.Code) != abi.CodeInternal || cloud.requests.Load() != 0 {
				t.Errorf("%s: %s", name, show(got))
			}
		})
	}
}

// TestARedirectLeavesConditions: what a change depended on is of no other request.
func TestARedirectLeavesConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newCloud(t, redirector).client(t, egress.Options{}, cloudURL)
		r := &abi.HttpRequest{Method: "PUT", Url: "http://cloud.example/303?to=/end", FollowRedirects: 1, Headers: []*abi.HttpHeader{{Name: "If-Match", Value: "*"}}}
		if got := sendOne(t, client, r); responseOf(got).Status != 200 {
			t.Error(show(got))
		}
	})
}

// written answers by what is written to the connection.
func written(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n"))
			_ = conn.Close()
		}
	}
}

// wide is a text in UTF-16.
func wide(text string) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		out.WriteByte(byte(unit))
		out.WriteByte(byte(unit >> 8))
	}
	return out.String()
}

// TestNoAnswerIsSeenInParts: whatever a server does, unasked, of what HTTP knows to
// answer in parts or otherwise than as it is, no piece of a secret comes through.
func TestNoAnswerIsSeenInParts(t *testing.T) {
	const ok, left, right = "HTTP/1.1 200 OK\nConnection: close\n", "s3cr", "et-token"
	whole := func(header, body string) string {
		return fmt.Sprintf("%s%sContent-Length: %d\n\n%s", ok, header, len(body), body)
	}
	part := func(status string) string {
		return strings.Replace(whole("", left), "200 OK", status, 1)
	}
	for name, test := range map[string]struct {
		answer string
		want   abi.Code
	}{
		"206":                         {part("206 Partial Content"), abi.CodeDenied},
		"226":                         {part("226 IM Used"), abi.CodeDenied},
		"an unknown success":          {part("299 Almost"), abi.CodeDenied},
		"an unknown class":            {part("600 Else"), abi.CodeDenied},
		"a part that says 200":        {whole("Content-Range: bytes 0-3/12\n", left), abi.CodeDenied},
		"a part of another unit":      {whole("Content-Range: letters 0-3/12\n", left), abi.CodeDenied},
		"parts":                       {whole("Content-Type: multipart/byteranges; boundary=x\n", "--x\n\n"+left+"\n--x--"), abi.CodeDenied},
		"parts, in another spelling":  {whole("Content-Type: Multipart/X-ByteRanges; boundary=x\n", left), abi.CodeDenied},
		"switched protocols":          {"HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: x\n\n" + left, abi.CodeUnavailable},
		"informational":               {"HTTP/1.1 103 Early Hints\nX-A: " + left + "\n\n" + whole("", "x"), abi.CodeOK},
		"trailers":                    {ok + "Transfer-Encoding: chunked\nTrailer: X-A\n\n1\nx\n0\nX-A: " + left + "\n\n", abi.CodeOK},
		"chunk extensions":            {ok + "Transfer-Encoding: chunked\n\n1;a=" + left + "\nx\n0;b=" + right + "\n\n", abi.CodeOK},
		"chunks":                      {ok + "Transfer-Encoding: chunked\n\n4\n" + left + "\n8\n" + right + "\n0\n\n", abi.CodeOK},
		"a reason":                    {strings.Replace(whole("", "x"), "OK", left, 1), abi.CodeOK},
		"cut short":                   {strings.Replace(whole("", left), "Length: 4", "Length: 12", 1), abi.CodeUnavailable},
		"a chunk that is cut short":   {ok + "Transfer-Encoding: chunked\n\nc\n" + left, abi.CodeUnavailable},
		"a broken chunk":              {ok + "Transfer-Encoding: chunked\n\n4\n" + left + "\n" + left, abi.CodeUnavailable},
		"gzip that is cut short":      {whole("Content-Encoding: gzip\n", string(gzipped(left)[:14])), abi.CodeUnavailable},
		"two lengths":                 {strings.Replace(whole("Content-Length: 12\n", left), "x", "x", 1), abi.CodeUnavailable},
		"packed in transfer":          {ok + "Transfer-Encoding: gzip\n\n" + left, abi.CodeUnavailable},
		"UTF-16":                      {whole("Content-Type: text/html; charset=\"UTF-16LE\"\n", wide(left+right)), abi.CodeDenied},
		"UTF-16 with a mark":          {whole("Content-Type: application/octet-stream\n", "\xff\xfe"+wide(left+right)), abi.CodeDenied},
		"UTF-16 that does not say so": {whole("Content-Type: application/json\n", wide(`"`+left+right)), abi.CodeDenied},
		"UTF-16 without a type":       {whole("", wide(left+right)), abi.CodeDenied},
		"UTF-7":                       {whole("Content-Type: text/plain;charset=utf-7\n", left), abi.CodeDenied},
		"EBCDIC":                      {whole("Content-Type: broken charset = 'cp037'\n", left), abi.CodeDenied},
		"a charset twice":             {whole("Content-Type: text/plain; charset=utf-8; charset=utf-16\n", left), abi.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) { wantNoPiece(t, test.answer, "GET", test.want) })
	}
	for _, encoding := range []string{"br", "zstd", "dcb", "dcz", "deflate", "compress", "x-gzip", "gzip, br", "gzip,gzip", "aes128gcm", "exi", "unknown"} {
		t.Run(encoding, func(t *testing.T) {
			wantNoPiece(t, whole("Content-Encoding: "+encoding+"\n", left), "GET", abi.CodeDenied)
		})
	}
	hashes := "ETag: \"" + left + "\"\nContent-MD5: " + left + "\nRepr-Digest: " + left + "\nX-Goog-Hash: " + left + "\nX-Ms-Blob-Content-MD5: " + left + "\nX-Oss-Hash-Crc64ecma: " + left + "\nX-Ms-Content-Crc64: " + left + "\nX-Content-Sha256: " + left + "\n"
	for status, method := range map[string]string{"200 OK": "HEAD", "304 Not Modified": "GET", "412 Precondition Failed": "PUT", "204 No Content": "GET"} {
		t.Run("hashes of "+method+" "+status, func(t *testing.T) {
			wantNoPiece(t, strings.Replace(ok, "200 OK", status, 1)+hashes+"Content-Length: 0\n\n", method, abi.CodeOK)
		})
	}
}

func wantNoPiece(t *testing.T, answer, method string, want abi.Code) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for _, fake := range []egress.Credentials{nil, withToken()} {
			client := newCloud(t, written(answer)).client(t, egress.Options{Credentials: fake, MaxRetries: -1}, cloudURL)
			got := sendOne(t, client, request(method, cloudURL))
			wantCode(t, got, want, "")
			all := strings.ReplaceAll(show(got), `\x00`, "")
			if fake == nil && want == abi.CodeOK {
				all = strings.ReplaceAll(all, "s3cret-token", "") // whole, and nobody's secret
			}
			if strings.Contains(all, "s3c") || strings.Contains(all, "t-tok") || want == abi.CodeDenied && !strings.Contains(all, "cannot be searched for secrets") {
				t.Error(all)
			}
		}
	})
}

// TestOrdinaryAnswersAreWhole: the types and statuses of clouds.
func TestOrdinaryAnswersAreWhole(t *testing.T) {
	for _, kind := range []string{
		"", "application/json", "application/json; charset=UTF-8", "text/xml;charset=UTF-8", `text/xml; charset="utf-8"`, "text/html; charset=iso-8859-1",
		"application/x-amz-json-1.1", "application/vnd.openstack.networking-v2.0+json", "text/plain; charset=us-ascii", "text/html;charset=Windows-1252",
		"multipart/mixed; boundary=batch_x",
	} {
		for _, code := range []int{200, 201, 202, 203, 207, 208, 300, 302, 400, 403, 404, 409, 410, 416, 429, 500, 501, 520, 599} {
			synctest.Test(t, func(t *testing.T) {
				client := newCloud(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.Header().Set("ETag", `"1"`)
					if code == 416 {
						w.Header().Set("Content-Range", "bytes */4")
					}
					w.WriteHeader(code)
					_, _ = io.WriteString(w, "text")
				}).client(t, egress.Options{Credentials: withToken(), MaxRetries: -1}, cloudURL)
				if got := sendOne(t, client, get(cloudURL)); string(responseOf(got).Body) != "text" || header(got, "Etag") != `"1"` {
					t.Errorf("%d %s: %s", code, kind, show(got))
				}
			})
		}
	}
}
