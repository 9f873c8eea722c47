package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeLogs gives a Node a kubelet that has a file as the log of each container, for the
// API server to fetch:
//
//	nodelogs NODE FILE
func (h *harness) nodeLogs(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "nodelogs NODE FILE")
	log := ts.ReadFile(args[1])
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, log) // who is gone needs no log
	}))
	ts.Defer(kubelet.Close)
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	ts.Check(err)
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}},`+
		`"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, host, port, now, now)
	_, err = h.client.CoreV1().Nodes().Patch(context.Background(), args[0], types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	ts.Check(err)
}
