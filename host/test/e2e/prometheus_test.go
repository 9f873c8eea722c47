package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// scrapePeriod is how often the Prometheus of a script scrapes, and how often it
// evaluates rules. The chart's period would make a script long.
const scrapePeriod = "1s"

// maxAnswer bounds an answer of Prometheus.
const maxAnswer = 16 << 20

// prometheus is a running Prometheus. It ends with the script.
type prometheus struct {
	dir     string
	address string
	began   time.Time
	stop    func()
}

// prometheusCommand runs a Prometheus as the chart's objects for its operator
// say, ServiceMonitor and PrometheusRule: the expressions are the chart's, and
// what takes a minute there (for) takes a second here.
//
//	prometheus start ACCOUNT      with the token of this ServiceAccount of the script's namespace
//	prometheus scrape MANAGER...  these are its targets from now on; waits until it has each of them
//	prometheus panels DIR         draws the chart's dashboard with what it has, and checks each panel; the pictures are in DIR
func (h *harness) prometheusCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "prometheus start ACCOUNT | prometheus scrape MANAGER... | prometheus panels DIR")
	switch {
	case args[0] == "start" && len(args) == 2:
		token, err := tokenOf(context.Background(), h.client, h.namespace, args[1])
		ts.Check(err)
		h.prometheus, err = startPrometheus(filepath.Dir(h.cluster.Kubectl()), ts.MkAbs(".prometheus"), token)
		ts.Check(err)
		ts.Defer(h.prometheus.stop)
	case args[0] == "scrape" && h.prometheus != nil:
		var targets []string
		for _, name := range args[1:] {
			targets = append(targets, h.manager(ts, name).secure)
		}
		ts.Check(h.prometheus.scrape(targets))
		await(ts, patience, "Prometheus scrapes "+strings.Join(args[1:], " "), func() (bool, string) {
			up, seen := h.prometheus.up()
			return up == len(targets), seen
		})
	case args[0] == "panels" && len(args) == 2 && h.prometheus != nil:
		ts.Check(os.MkdirAll(args[1], 0o755))
		ts.Check(ts.Exec(filepath.Join(filepath.Dir(h.cluster.Kubectl()), "panels"), "-o", args[1], h.prometheus.page()))
	default:
		ts.Fatalf("prometheus %s: unknown, or there is no prometheus start before it", args[0])
	}
}

// alert waits until an alert fires whose labels and annotations match, as one
// text such as provider="a" summary="...", or until none does any more:
//
//	alert fires NAME [REGEXP]
//	alert resolved NAME [REGEXP]
//	alert quiet                   checks that no alert fires
func (h *harness) alert(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && h.prometheus != nil && len(args) >= 1 && len(args) <= 3, "after prometheus start: alert fires|resolved NAME [REGEXP] | alert quiet")
	args = append(slices.Clone(args), "", "")[:3]
	re, want := compile(ts, args[2]), args[0] == "fires"
	switch {
	case args[0] == "quiet" && args[1] == "":
		firing, seen, err := h.prometheus.fires("", re)
		ts.Check(err)
		if firing {
			ts.Fatalf("alerts fire:\n%s", seen)
		}
	case (want || args[0] == "resolved") && args[1] != "":
		await(ts, 2*patience, strings.Join(args, " "), func() (bool, string) {
			firing, seen, err := h.prometheus.fires(args[1], re)
			return err == nil && firing == want, fmt.Sprint(seen, err)
		})
	default:
		ts.Fatalf("alert %s: unknown", strings.Join(args, " "))
	}
}

// fires reports whether an alert fires that has the name, if there is one, and
// matches.
func (p *prometheus) fires(name string, re *regexp.Regexp) (firing bool, seen string, err error) {
	var answer struct{ Alerts []promAlert }
	if err := p.get("alerts", &answer); err != nil {
		return false, "", err
	}
	return slices.ContainsFunc(answer.Alerts, func(a promAlert) bool {
		return a.State == "firing" && (name == "" || a.Labels["alertname"] == name) && re.MatchString(a.String())
	}), fmt.Sprint(answer.Alerts), nil
}

// promAlert is an alert as /api/v1/alerts has it.
type promAlert struct {
	State       string
	Labels      map[string]string
	Annotations map[string]string
}

// String has the labels and annotations in an order that does not change.
func (a promAlert) String() string {
	text := a.Labels["alertname"] + " is " + a.State
	for _, pairs := range []map[string]string{a.Labels, a.Annotations} {
		lines := make([]string, 0, len(pairs))
		for name, value := range pairs {
			lines = append(lines, fmt.Sprintf(" %s=%q", name, value))
		}
		slices.Sort(lines)
		text += strings.Join(lines, "")
	}
	return text + "\n"
}

func startPrometheus(assets, dir, token string) (*prometheus, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &prometheus{dir: dir, address: address, began: time.Now()}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := errors.Join(p.configure(assets, token), p.scrape(nil)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, filepath.Join(assets, "prometheus"),
		"--config.file="+p.file("prometheus.yaml"), "--storage.tsdb.path="+p.file("data"), "--web.listen-address="+address,
		"--web.user-assets="+filepath.Join(assets, "..", "dashboard"))
	log, err := os.Create(p.file("log"))
	if err != nil {
		cancel()
		return nil, err
	}
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := c.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("%w: run make prometheus", err), log.Close())
	}
	p.stop = func() {
		cancel()
		_ = c.Wait() // it was killed
		_ = log.Close()
	}
	return p, nil
}

// page is the dashboard as testdata/dashboard draws it; Prometheus serves it beside
// its API.
func (p *prometheus) page() string {
	return fmt.Sprintf("http://%s/user/index.html?dashboard=dashboard.json&seconds=%.0f&step=2", p.address, time.Since(p.began).Seconds())
}

func (p *prometheus) file(name string) string { return filepath.Join(p.dir, name) }

// configure makes Prometheus' configuration of the chart's objects, as its
// operator does.
func (p *prometheus) configure(assets, token string) error {
	var monitor struct {
		Spec struct {
			Endpoints []struct {
				Port, Scheme, BearerTokenFile string
				TLSConfig                     struct{ InsecureSkipVerify bool }
			}
		}
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Name  string           `json:"name"`
				Rules []map[string]any `json:"rules"`
			} `json:"groups"`
		}
	}
	if err := errors.Join(charts(assets, "ServiceMonitor", &monitor), charts(assets, "PrometheusRule", &rule)); err != nil {
		return err
	}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if err := hasten(r); err != nil {
				return err
			}
		}
	}
	rules, err := yaml.Marshal(rule.Spec)
	if err != nil {
		return err
	}
	endpoint := monitor.Spec.Endpoints[0]
	if endpoint.Port != "https" || endpoint.BearerTokenFile == "" {
		return fmt.Errorf("the chart's ServiceMonitor is about %+v", endpoint)
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": scrapePeriod, "scrape_timeout": scrapePeriod, "evaluation_interval": scrapePeriod},
		"rule_files": []string{p.file("rules.yaml")},
		"scrape_configs": []map[string]any{{
			"job_name": "ccm", "scheme": endpoint.Scheme,
			"authorization":   map[string]any{"credentials_file": p.file("token")},
			"tls_config":      map[string]any{"insecure_skip_verify": endpoint.TLSConfig.InsecureSkipVerify},
			"file_sd_configs": []map[string]any{{"files": []string{p.file("targets.json")}}},
		}},
	})
	return errors.Join(err, os.WriteFile(p.file("token"), []byte(token), 0o600),
		os.WriteFile(p.file("rules.yaml"), rules, 0o600), os.WriteFile(p.file("prometheus.yaml"), config, 0o600))
}

// hasten makes seconds of the minutes that a rule waits.
func hasten(rule map[string]any) error {
	text, _ := rule["for"].(string)
	d, err := time.ParseDuration(cmp.Or(text, "0s"))
	if err != nil {
		return fmt.Errorf("the alert %v waits %q: %w", rule["alert"], text, err)
	}
	rule["for"] = (d / 60).String()
	return nil
}

// charts decodes the object of a kind that the chart makes.
func charts(assets, kind string, into any) error {
	const chart = "../../../deploy/chart"
	out, err := exec.Command(filepath.Join(assets, "helm"), "template", "ccm", chart, "--values="+chart+"/examples/monitoring.yaml").Output()
	if err != nil {
		return fmt.Errorf("the chart's %s: %w: run make helm", kind, err)
	}
	for _, document := range bytes.Split(out, []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\nkind: "+kind+"\n")) {
			return yaml.Unmarshal(document, into)
		}
	}
	return fmt.Errorf("the chart makes no %s", kind)
}

func (p *prometheus) scrape(targets []string) error {
	text, err := json.Marshal([]map[string]any{{"targets": append([]string{}, targets...)}})
	if err != nil {
		return err
	}
	next := p.file("targets.next")
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, p.file("targets.json")))
}

// up is how many targets there are, if the last scrape of each succeeded.
func (p *prometheus) up() (count int, seen string) {
	var answer struct {
		ActiveTargets []struct{ ScrapeURL, Health, LastError string }
	}
	err := p.get("targets?state=active", &answer)
	for _, target := range answer.ActiveTargets {
		if target.Health != "up" {
			return -1, fmt.Sprint(answer, readFile(p.file("log")))
		}
	}
	return len(answer.ActiveTargets), fmt.Sprint(answer, err, readFile(p.file("log")))
}

// get asks Prometheus' API.
func (p *prometheus) get(path string, data any) error {
	response, err := http.Get("http://" + p.address + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, maxAnswer)).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("Prometheus answers %s: %s", answer.Status, answer.Error)
	}
	return nil
}
