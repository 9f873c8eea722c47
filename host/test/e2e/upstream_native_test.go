//go:build upstream

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	nativeMachines = 50
	nativeServices = 10
	nativeDelay    = 50 * time.Millisecond
	// nativeStatus is upstream's default: each second, as other tests have it, is
	// all that the managers would do.
	nativeStatus = "--node-status-update-frequency=5m"
)

// run is what a manager did for the same Nodes and Services.
type run struct {
	nodes, services, deleted time.Duration
	idle, after              taken
	counts                   map[string]int
	state                    string
}

// TestUpstreamBesideNative gives the same Nodes, routes and Services to AWS' own
// manager and to the guest with the same provider: the cloud is then the same,
// and was asked for the same changes.
func TestUpstreamBesideNative(t *testing.T) {
	var native, guest run
	if !t.Run("native", func(t *testing.T) { native = runNative(t) }) || !t.Run("guest", func(t *testing.T) { guest = runGuest(t) }) {
		return
	}
	t.Logf("requests, native and guest:\n%s", sideBySide(native.counts, guest.counts))
	for _, line := range []struct {
		what          string
		native, guest time.Duration
	}{{"fifty nodes with routes", native.nodes, guest.nodes}, {"ten Services", native.services, guest.services}, {"ten Services deleted", native.deleted, guest.deleted}} {
		t.Logf("%-24s native %7.1f s, guest %7.1f s, ratio %.2f", line.what, line.native.Seconds(), line.guest.Seconds(), line.guest.Seconds()/line.native.Seconds())
	}
	t.Logf("memory: native %s idle, %s after; guest %s idle, %s after", native.idle, native.after, guest.idle, guest.after)
	if native.state != guest.state {
		t.Errorf("the cloud differs, - native, + guest:\n%s", difference(native.state, guest.state))
	}
	for action := range maps.Keys(merged(native.counts, guest.counts)) {
		if changes(action) && native.counts[action] != guest.counts[action] {
			t.Errorf("%s: %d times by the native manager, %d by the guest", action, native.counts[action], guest.counts[action])
		}
	}
}

func changes(action string) bool { return !strings.HasPrefix(action, "Describe") }

func runNative(t *testing.T) run {
	u := newUpstreamRig(t, "compared", nativeMachines)
	for name, value := range u.awsEnvironment(awsKeyID, awsSecret) {
		t.Setenv(name, value)
	}
	config := filepath.Join(u.dir, "cloud.conf")
	if err := os.WriteFile(config, []byte(u.cloudConfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	m, usual := u.manager(t, "native")
	u.start(t, m, filepath.Join(u.build, "bin", "aws-cloud-controller-manager"), append(upstreams(usual), "--cloud-provider=aws", "--cloud-config="+config, "--allocate-node-cidrs=true", nativeStatus))
	u.until(t.Context(), t, m, "the manager leads", func() (bool, string) {
		leases, err := u.client.CoordinationV1().Leases(u.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(leases.Items) > 0 && leases.Items[0].Spec.HolderIdentity != nil, fmt.Sprint(err)
	})
	return u.life(t, m)
}

func runGuest(t *testing.T) run {
	u := newUpstreamRig(t, "compared", nativeMachines)
	u.offer(t, u.wasm(t, "aws.wasm"))
	return u.life(t, u.startGuest(t, "guest", nativeStatus))
}

// life is the same for both.
func (u *upstreamRig) life(t *testing.T, m *manager) (r run) {
	r.idle = memoryOf(t, m)
	u.proxy.reset(nativeDelay)
	begin := time.Now()
	u.joinNodes(t)
	u.awaitInitialized(t.Context(), t, m)
	u.awaitRoutes(t, m, u.podNetworks())
	r.nodes = time.Since(begin)
	begin = time.Now()
	for i := range nativeServices {
		u.service(t, fmt.Sprintf("s%d", i), []string{"", "nlb"}[i%2], 30100+int32(2*i), 30101+int32(2*i))
	}
	u.awaitBalancers(t, m, nativeServices/2, nativeServices/2)
	r.services = time.Since(begin)
	r.state = u.moto.state(t, u.services(t))
	begin = time.Now()
	for _, s := range u.services(t) {
		if err := u.client.CoreV1().Services(u.namespace).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	u.until(t.Context(), t, m, "nothing is left of the Services", func() (bool, string) {
		classic, network := u.moto.balancers(t)
		return len(classic)+len(network)+len(u.services(t)) == 0, fmt.Sprint(classic, network)
	})
	r.deleted, r.after = time.Since(begin), memoryOf(t, m)
	r.state += u.moto.state(t, nil) + identifiers.ReplaceAllString(u.fromTheCloud(t), "ID")
	r.counts, _ = u.proxy.seen()
	return r
}

// taken is the memory of a process: its own, and the pages of files that happen
// to be in memory, which the kernel may take back.
type taken struct{ own, files int } // MiB

func (m taken) String() string {
	return fmt.Sprintf("%d MiB (%d its own, %d of files)", m.own+m.files, m.own, m.files)
}

func memoryOf(t *testing.T, m *manager) taken {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	mib := func(field string) int {
		kib, err := strconv.Atoi(first(t, field+`:\s+(\d+) kB`, string(status)))
		if err != nil {
			t.Fatal(err)
		}
		return kib >> 10
	}
	return taken{own: mib("RssAnon") + mib("RssShmem"), files: mib("RssFile")}
}
