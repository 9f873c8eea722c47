package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// developing is a dev with a manager that returns status.
func developing(t *testing.T, status func() string) (d *dev, said chan string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"manager": {"leads": true}, "providers": [`+status()+`]}`)
	}))
	t.Cleanup(server.Close)
	connect := func() (*managerClient, error) {
		return newManagerClient(server.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {}), nil
	}
	client := fake.NewClientset()
	said = make(chan string, 100)
	d = &dev{
		devFlags: &devFlags{timeout: time.Minute}, provider: "p", from: filepath.Join(t.TempDir(), "p.wasm"), client: client,
		target: moduleConfigMap{client.CoreV1().ConfigMaps("kube-system"), "kube-system", "p"}, manager: &connection{connect: connect},
		say: func(format string, args ...any) { said <- fmt.Sprintf(format, args...) },
	}
	t.Cleanup(d.manager.drop)
	return d, said
}

// save writes another module and returns its digest.
func (d *dev) save(t *testing.T, number byte) string {
	t.Helper()
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		t.Fatal("CCM_BUILD is not set: run make test, which builds the guests and sets it")
	}
	wasm, err := os.ReadFile(filepath.Join(build, "static.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	wasm = append(wasm, 0, 2, 1, 'n'+number) // a custom section with only a name
	if err := os.WriteFile(d.from, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(provenance.Digest(wasm), "sha256:")
}

// awaitPut waits until another module is in the ConfigMap.
func (d *dev) awaitPut(t *testing.T, other []byte) (now []byte) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		cm, err := d.client.CoreV1().ConfigMaps("kube-system").Get(ctx, "p", metav1.GetOptions{})
		if err == nil {
			now = cm.BinaryData["provider.wasm"]
		}
		return err == nil && !bytes.Equal(now, other), nil
	})
	if err != nil {
		t.Fatal("no module is put")
	}
	return now
}

// untilSaid waits for a line with this beginning.
func untilSaid(t *testing.T, said <-chan string, begins string) {
	t.Helper()
	for {
		select {
		case line := <-said:
			if strings.HasPrefix(line, begins) {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%q is not said", begins)
		}
	}
}

// A save during the wait for the previous module ends that wait.
func TestASaveEndsTheRound(t *testing.T) {
	d, said := developing(t, func() string { return `{"name": "p", "phase": "Waiting", "message": "for nothing"}` })
	d.save(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	saved, ended := make(chan struct{}, 1), make(chan struct{})
	go func() { d.rounds(ctx, saved); close(ended) }()
	first := d.awaitPut(t, nil)
	d.save(t, 2)
	saved <- struct{}{}
	untilSaid(t, said, "saved again")
	d.awaitPut(t, first)
	stop()
	<-ended
}

// Two writers of one ConfigMap are told of each other.
func TestAnotherWritesTheModule(t *testing.T) {
	d, said := developing(t, func() string {
		return `{"name": "p", "phase": "Kept", "offered": {"digest": "other"}, "serving": {"digest": "other"}}`
	})
	d.timeout = 200 * time.Millisecond
	digest := d.save(t, 1)
	err := d.round(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is offered other, and not "+digest[:12]) {
		t.Errorf("the error is %v, after %d lines", err, len(said))
	}
}

// An interrupted wait does not report that the module does not serve.
func TestAnInterruptedWait(t *testing.T) {
	d, _ := developing(t, func() string { return `{"name": "p", "phase": "Waiting"}` })
	d.save(t, 1)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.round(ctx) }()
	d.awaitPut(t, nil)
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the error is %v", err)
	}
}
