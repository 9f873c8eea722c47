package e2e

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// maxMetrics bounds an answer of /metrics.
const maxMetrics = 16 << 20

// manager is one process of the manager.
type manager struct {
	name    string
	user    string
	logPath string
	secure  string // host:port of HTTPS
	probe   string // host:port of /readyz
	cmd     *exec.Cmd
	done    chan struct{}
}

// ccm starts and ends managers:
//
//	ccm start NAME [flag...]  starts one; it does not wait
//	ccm ready NAME            waits until /readyz says that a provider serves
//	ccm unready NAME          checks that /readyz says that none does
//	ccm stop NAME             ends it by SIGTERM and waits for its end
//	ccm kill NAME             ends it by SIGKILL and waits for its end
//	ccm exited NAME           waits until it has ended by itself
//
// A name is used once in a script: writes tells the managers apart by it. The
// binary is that of the environment's MANAGER in the build, if there is one.
func (h *harness) ccm(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "ccm start|ready|unready|stop|kill|exited NAME [flag...]")
	if args[0] == "start" {
		h.start(ts, args[1], args[2:])
		return
	}
	m := h.manager(ts, args[1])
	switch args[0] {
	case "ready":
		await(ts, patience, m.name+" is ready", m.readyz)
	case "unready":
		if ready, answer := m.readyz(); ready {
			ts.Fatalf("%s is ready: %s", m.name, answer)
		}
	case "stop":
		ts.Check(m.cmd.Process.Signal(syscall.SIGTERM))
		<-m.done
	case "kill":
		m.kill()
	case "exited":
		await(ts, patience, m.name+" has ended", func() (bool, string) { return m.ended(), m.tail(2 << 10) })
	default:
		ts.Fatalf("ccm %s: unknown", args[0])
	}
}

func (h *harness) manager(ts *testscript.TestScript, name string) *manager {
	m := h.managers[name]
	if m == nil {
		ts.Fatalf("no manager %s was started", name)
	}
	return m
}

func (h *harness) start(ts *testscript.TestScript, name string, extra []string) {
	if h.managers[name] != nil {
		ts.Fatalf("manager %s was started before: take another name", name)
	}
	m, err := newManager(name, h.namespace+"-"+name, ts.MkAbs("."))
	ts.Check(err)
	if h.show.stays { // on a machine that does other things as well
		extra = append(extra, "--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=90s")
	}
	kubeconfig, err := h.cluster.UserKubeconfig(m.user, "system:masters")
	ts.Check(err)
	ts.Check(m.start(filepath.Join(h.build, cmp.Or(ts.Getenv("MANAGER"), "cloud-controller-manager")), append(withoutSource(h.flags(m, kubeconfig), extra), extra...)))
	h.managers[name] = m
}

// newManager is one that is not started, with its log in dir.
func newManager(name, user, dir string) (*manager, error) {
	secure, err := freeAddress()
	if err != nil {
		return nil, err
	}
	probe, err := freeAddress()
	logPath := filepath.Join(dir, ".ccm-"+name+".log")
	return &manager{name: name, user: user, logPath: logPath, secure: secure, probe: probe, done: make(chan struct{})}, err
}

func (m *manager) start(binary string, flags []string) error {
	output, err := os.Create(m.logPath)
	if err != nil {
		return err
	}
	m.cmd = exec.Command(binary, flags...)
	m.cmd.Stdout, m.cmd.Stderr = output, output
	// A manager that is killed leaves its compiled modules.
	m.cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(m.logPath))
	// The process must not outlive the test, however that ends. Ctrl-C is for
	// the test, which ends the process in its turn.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		return errors.Join(err, output.Close())
	}
	go func() {
		defer close(m.done)
		defer output.Close()
		_ = m.cmd.Wait() // how it ended is for the test to judge, by the log
	}()
	return nil
}

// flags make the loops quick, so that scripts need not wait for their periods.
func (h *harness) flags(m *manager, kubeconfig string) []string {
	host, port, _ := net.SplitHostPort(m.secure)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--provider-configmap=" + h.namespace + "/provider",
		"--provider-store-namespace=" + h.namespace,
		"--health-probe-bind-address=" + m.probe,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--leader-elect-resource-namespace=" + h.namespace,
		"--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s",
		"--leader-elect-retry-period=500ms",
		"--cluster-cidr=10.244.0.0/16",
		"--allocate-node-cidrs=false",
		"--node-monitor-period=500ms",
		"--node-status-update-frequency=1s",
		"--route-reconciliation-period=1s",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--v=2",
	}
}

// withoutSource leaves the source out where --config says it.
func withoutSource(flags, extra []string) []string {
	if !slices.ContainsFunc(extra, func(flag string) bool { return strings.HasPrefix(flag, "--config=") }) {
		return flags
	}
	return slices.DeleteFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--provider-configmap=") })
}

// certificate writes NAME.crt and NAME.key, for the secure port of a manager:
//
//	certificate NAME DAYS
func (h *harness) certificate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "certificate NAME DAYS")
	days, err := strconv.Atoi(args[1])
	ts.Check(err)
	public, private, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: "localhost", MaxAge: time.Duration(days) * 24 * time.Hour})
	ts.Check(errors.Join(err, os.WriteFile(ts.MkAbs(args[0]+".crt"), public, 0o600), os.WriteFile(ts.MkAbs(args[0]+".key"), private, 0o600)))
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (m *manager) kill() {
	_ = m.cmd.Process.Kill() // fails only when it has ended already
	<-m.done
}

func (m *manager) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func (m *manager) readyz() (bool, string) {
	response, err := http.Get("http://" + m.probe + "/readyz")
	if err != nil {
		return false, err.Error() + "\n" + m.tail(4<<10)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return response.StatusCode == http.StatusOK, response.Status + " " + string(body)
}

// tail returns the end of the log.
func (m *manager) tail(bytes int) string {
	text := readFile(m.logPath)
	return text[max(0, len(text)-bytes):]
}

// log waits until a line of a manager's log matches, or checks that none does:
//
//	[!] log NAME REGEXP
func (h *harness) log(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2, "[!] log NAME REGEXP")
	m, re := h.manager(ts, args[0]), compile(ts, args[1])
	if neg {
		if line := re.FindString(readFile(m.logPath)); line != "" {
			ts.Fatalf("the log of %s has %q", m.name, line)
		}
		return
	}
	await(ts, patience, fmt.Sprintf("log of %s matches %q", m.name, args[1]), func() (bool, string) {
		return re.MatchString(readFile(m.logPath)), m.tail(4 << 10)
	})
}

// metric waits until a line of a manager's metrics matches, which becomes the
// stdout, or checks that none does:
//
//	[!] metric NAME REGEXP
func (h *harness) metric(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2, "[!] metric NAME REGEXP")
	m, re := h.manager(ts, args[0]), compile(ts, args[1])
	client, err := scraper(h.cluster)
	ts.Check(err)
	if neg {
		text, err := m.metrics(client)
		ts.Check(err)
		if line := re.FindString(text); line != "" {
			ts.Fatalf("the metrics of %s have %q", m.name, line)
		}
		return
	}
	var line string
	await(ts, patience, fmt.Sprintf("metrics of %s match %q", m.name, args[1]), func() (bool, string) {
		text, err := m.metrics(client)
		line = re.FindString(text)
		return err == nil && re.MatchString(text), fmt.Sprint(err, "\n", grep(text, "wasm_ccm"))
	})
	fmt.Fprintln(ts.Stdout(), line)
}

// scraper reads metrics as the administrator. The manager's certificate is
// self-signed. Connections do not live on in the manager, whose goroutines are
// counted.
func scraper(cluster *devcluster.Cluster) (*http.Client, error) {
	config := cluster.Config()
	config.CAData, config.CAFile, config.Insecure = nil, "", true
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	secure.MinVersion = tls.VersionTLS12
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true})
	return &http.Client{Transport: transport}, err
}

func (m *manager) metrics(client *http.Client) (string, error) {
	response, err := client.Get("https://" + m.secure + "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("/metrics answers %s: %s", strconv.Itoa(response.StatusCode), body)
	}
	return string(body), err
}

func grep(text, word string) string {
	var found []string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), word) {
			found = append(found, lines.Text())
		}
	}
	return strings.Join(found, "\n")
}
