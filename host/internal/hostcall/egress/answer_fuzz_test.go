package egress

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// FuzzAnswer sends a request to a server that answers with any bytes: what the
// provider gets is within the bounds.
func FuzzAnswer(f *testing.F) {
	const most = 64 << 10
	listener, err := (&net.ListenConfig{}).Listen(f.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = listener.Close() })
	var answer atomic.Pointer[[]byte]
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = conn.Write(*answer.Load()) // the client may have enough
			}
			_ = conn.Close()
		}
	}()
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x00\x00\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n"))
	url := "http://" + listener.Addr().String()
	g, err := ParseGrant(url)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		answer.Store(&bytes)
		client, err := New([]Grant{g}, Options{MaxBatchBytes: most, MaxRetries: -1, MaxTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		results, err := client.Send(t.Context(), []*abi.HttpRequest{{Method: "GET", Url: url, FollowRedirects: 3}})
		if err != nil || len(results) != 1 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		if r := results[0].Response; r != nil && (len(r.Body) > most || len(r.Headers) > maxResponseHeaders) {
			t.Fatalf("%d bytes and %d headers", len(r.Body), len(r.Headers))
		}
	})
}
