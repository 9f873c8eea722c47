package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// maxMetrics bounds an answer of /metrics, in bytes.
	maxMetrics = 16 << 20
	// tailBytes is how much of the log an error shows.
	tailBytes = 6 << 10
	// grace is the time between SIGTERM and SIGKILL.
	grace = 10 * time.Second
)

// manager is the cloud-controller-manager as a child process.
type manager struct {
	binary, dir string
	secure      string // host:port of HTTPS
	cmd         *exec.Cmd
	done        chan struct{}
	ended       error // valid after done
}

func newManager(binary, dir string) *manager {
	return &manager{binary: binary, dir: dir, done: make(chan struct{})}
}

func (m *manager) logPath() string { return filepath.Join(m.dir, "ccm.log") }

// start runs the manager with its log in a file.
func (m *manager) start(flags []string) error {
	secure, err := freeAddress()
	if err != nil {
		return err
	}
	m.secure = secure
	host, port, err := net.SplitHostPort(secure)
	if err != nil {
		return err
	}
	log, err := os.Create(m.logPath())
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), m.binary, append(flags, "--bind-address="+host, "--secure-port="+port)...)
	cmd.Stdout, cmd.Stderr = log, log
	// It outlives every step's context; stop ends it. Ctrl-C goes to the show, which ends the manager in its turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s (make build): %w", m.binary, err), log.Close())
	}
	m.cmd = cmd
	go func() {
		m.ended = cmd.Wait()
		log.Close()
		close(m.done)
	}()
	return nil
}

func freeAddress() (string, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port on loopback: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// running returns an error when the process has ended by itself.
func (m *manager) running() error {
	select {
	case <-m.done:
		return fmt.Errorf("%w: %w, see %s", errEnded, m.endedError(), m.logPath())
	default:
		return nil
	}
}

func (m *manager) endedError() error {
	if m.ended == nil {
		return errors.New("exit status 0")
	}
	return m.ended
}

// waitOr returns when the context ends (no error) or the manager does.
func (m *manager) waitOr(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-m.done:
		return m.running()
	}
}

// stop ends the process, if it was started.
func (m *manager) stop() error {
	if m.cmd == nil {
		return nil
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-m.done:
		return nil
	case <-time.After(grace):
		return m.cmd.Process.Kill()
	}
}

// tail returns the end of the log.
func (m *manager) tail() string {
	data, err := os.ReadFile(m.logPath())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-tailBytes):])
}

// metrics returns the lines of /metrics that begin with prefix, asked for as
// the user of config. The manager's own certificate is self-signed.
func (m *manager) metrics(ctx context.Context, config *rest.Config, prefix string) ([]string, error) {
	config = rest.CopyConfig(config)
	config.CAData, config.CAFile, config.Insecure = nil, "", true
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	secure.MinVersion = tls.VersionTLS12
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.secure+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the manager's /metrics answers %s", response.Status)
	}
	return linesWith(io.LimitReader(response.Body, maxMetrics), prefix)
}

func linesWith(r io.Reader, prefix string) ([]string, error) {
	var found []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			found = append(found, lines.Text())
		}
	}
	return found, lines.Err()
}
