package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
)

// The binary that users get has every flag and feature gate of a plain manager
// of the same library: its version stamp decides over both.
func TestReleasedBinaryHasTheFlagsAndGatesOfItsLibrary(t *testing.T) {
	released, err := exec.CommandContext(t.Context(), filepath.Join(buildDir(t), "cloud-controller-manager"), "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, released)
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(released)) {
		has[strings.Join(strings.Fields(line), " ")] = true
	}
	gates := 0
	for line := range strings.Lines(plainHelp(t)) {
		line = strings.Join(strings.Fields(line), " ")
		if strings.Contains(line, "=true|false") {
			gates++
		}
		if strings.Contains(line, "--cloud-provider ") || strings.Contains(line, "--webhook-secure-port ") || strings.HasPrefix(line, "All controllers:") {
			continue // defaults of ours, and one controller more
		}
		if !has[line] {
			t.Errorf("the released binary does not say %q", line)
		}
	}
	if gates < 10 {
		t.Errorf("the plain manager has only %d feature gates", gates)
	}
}

// plainHelp is the flags of upstream's manager, with nothing of ours.
func plainHelp(t *testing.T) string {
	t.Helper()
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	for _, set := range o.Flags(app.ControllerNames(app.DefaultInitFuncConstructors), app.ControllersDisabledByDefault.List(), names.CCMControllerAliases(), app.AllWebhooks, app.DisabledByDefaultWebhooks).FlagSets {
		help.WriteString(set.FlagUsages())
	}
	return help.String()
}

// The binary that users get does what a plain manager of the same library does,
// beside each other on one API server: it has the same metrics, ends HTTP/2
// connections of those who do not say who they are (CVE-2023-44487), and writes
// its log as JSON with the same values in context. The last two are feature
// gates in force; neither manager has metrics of its gates.
func TestReleasedBinaryDoesWhatItsLibraryDoes(t *testing.T) {
	r := newRig(t, "released")
	r.put(t.Context(), t, "provider", r.wasm(t, "static.wasm"), string(inventory(t)))
	released := r.startManager(t, "released", "--leader-elect-resource-name=released", "--logging-format=json", "--v=4")
	plain := r.startPlain(t, "plain", "--leader-elect-resource-name=plain", "--logging-format=json", "--v=4")

	t.Run("metrics", func(t *testing.T) {
		r.until(t.Context(), t, released, "the plain manager's metrics", func() (bool, string) {
			want, has := r.families(plain), r.families(released)
			var lacking []string
			for family := range want {
				if !has[family] {
					lacking = append(lacking, family)
				}
			}
			return len(want) > 40 && len(lacking) == 0, fmt.Sprintf("of %d lacking: %q", len(want), lacking)
		})
	})
	t.Run("HTTP/2", func(t *testing.T) {
		for _, m := range []*manager{plain, released} {
			if kept := r.keepsConnection(t, m, nil); kept {
				t.Errorf("%s keeps the HTTP/2 connection of somebody unknown open", m.name)
			}
			if kept := r.keepsConnection(t, m, r.cluster.Config()); !kept {
				t.Errorf("%s ends the HTTP/2 connection of an administrator: is it the right one that is looked at?", m.name)
			}
		}
	})
	t.Run("log", func(t *testing.T) {
		r.until(t.Context(), t, released, "the values in context of the plain manager's log", func() (bool, string) {
			want, has := logKeys(t, plain), logKeys(t, released)
			lacking, both := []string{}, 0
			for message, keys := range want {
				if has[message] == nil {
					continue // of a loop that has had nothing to do
				}
				both++
				for key := range keys {
					if !has[message][key] {
						lacking = append(lacking, message+": "+key)
					}
				}
			}
			return both >= 10 && len(lacking) == 0, fmt.Sprintf("%d lines are of both; lacking are %q", both, lacking)
		})
		if line := sameKeyTwice(readFile(released.logPath)); line != "" {
			t.Errorf("a line has a key twice, or is no JSON: %s", line)
		}
		r.until(t.Context(), t, released, "the provider's name", func() (bool, string) {
			return strings.Contains(readFile(released.logPath), `"logger":"provider"`) &&
				len(without(released.logPath, `"logger":"provider"`, `"provider":"provider"`)) == 0, fmt.Sprint(without(released.logPath, `"logger":"provider"`, `"provider":"provider"`))
		})
		// A value of ours that only a logger in the context has.
		r.until(t.Context(), t, released, "a name in context", func() (bool, string) {
			return strings.Contains(readFile(released.logPath), `"logger":"provider"`), ""
		})
	})
}

// without returns the lines of a log with one text and without another.
func without(path, with, want string) (lines []string) {
	for line := range strings.Lines(readFile(path)) {
		if strings.Contains(line, with) && !strings.Contains(line, want) {
			lines = append(lines, line)
		}
	}
	return lines
}

// sameKeyTwice returns the first whole line of a log that is no JSON object, or has a key twice.
func sameKeyTwice(log string) string {
	for line := range strings.Lines(log) {
		if !strings.HasSuffix(line, "\n") {
			return "" // it is being written
		}
		decoder, keys, depth := json.NewDecoder(strings.NewReader(line)), map[string]bool{}, 0
		for key := false; ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) && depth == 0 {
				break
			}
			if err != nil {
				return line
			}
			switch token {
			case json.Delim('{'), json.Delim('['):
				depth++
				key = depth == 1
				continue
			case json.Delim('}'), json.Delim(']'):
				depth--
				key = depth == 1
				continue
			}
			if name, ok := token.(string); ok && key && depth == 1 {
				if keys[name] {
					return line
				}
				keys[name] = true
				key = false
				continue
			}
			key = depth == 1
		}
	}
	return ""
}

func inventory(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(scripts, "inventory.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// startPlain starts a plain manager: this very binary.
func (r *rig) startPlain(t *testing.T, name string, flags ...string) *manager {
	t.Helper()
	m, usual := r.manager(t, name)
	usual = slices.DeleteFunc(usual, func(flag string) bool {
		return strings.HasPrefix(flag, "--provider-") || strings.HasPrefix(flag, "--health-probe-")
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.start(t, m, "/usr/bin/env", slices.Concat([]string{asPlainManager + "=1", self}, usual, flags))
	r.until(t.Context(), t, m, "the plain manager leads", func() (bool, string) {
		return strings.Contains(readFile(m.logPath), "nodes status took"), ""
	})
	return m
}

// families are the metrics with their types, none while they cannot be asked for.
func (r *rig) families(m *manager) map[string]bool {
	text, _ := m.metrics(r.scrape) // not at first
	all := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+ \S+)$`).FindAllStringSubmatch(text, -1) {
		all[found[1]] = true
	}
	return all
}

// keepsConnection asks by HTTP/2 again and again, and reports whether that goes
// over one connection; as somebody unknown without a config.
func (r *rig) keepsConnection(t *testing.T, m *manager, config *rest.Config) bool {
	t.Helper()
	secure := &tls.Config{}
	if config != nil {
		var err error
		config = rest.CopyConfig(config)
		config.CAData, config.Insecure = nil, true
		if secure, err = rest.TLSConfigFor(config); err != nil {
			t.Fatal(err)
		}
	}
	secure.MinVersion, secure.InsecureSkipVerify = tls.VersionTLS12, true // its certificate is self-signed
	transport := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	connections := map[net.Conn]bool{}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { connections[info.Conn] = true }})
	// That a connection ends is known a moment after the answer.
	for range 100 {
		if err := askHTTP2(ctx, t, transport, m); err != nil || len(connections) > 1 {
			return false
		}
	}
	return true
}

// askHTTP2 returns an error where the connection ends below the request.
func askHTTP2(ctx context.Context, t *testing.T, transport *http.Transport, m *manager) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.secure+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 {
		t.Fatalf("%s answers %s by %s", m.name, response.Status, response.Proto)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// logKeys are the keys of the values in the lines of a log, by their message.
// Every line of it must be JSON.
func logKeys(t *testing.T, m *manager) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	text, _, _ := cutLastLine(readFile(m.logPath)) // the last line may not be whole
	for line := range strings.Lines(text) {
		if strings.Contains(line, "withrace.go") {
			continue // by klog's own beginning in the test's binary with -race, before the flags are read
		}
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%s logs no JSON: %q: %v", m.name, line, err)
		}
		message, _ := entry["msg"].(string)
		message = strings.Map(notDigit, message) // how long it took, or how many there were
		if all[message] == nil {
			all[message] = map[string]bool{}
		}
		for key := range entry {
			all[message][key] = true
		}
	}
	return all
}

func notDigit(r rune) rune {
	if r >= '0' && r <= '9' || r == '.' {
		return -1
	}
	return r
}

func cutLastLine(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '\n')
	if i < 0 {
		return "", text, false
	}
	return text[:i+1], text[i+1:], true
}
