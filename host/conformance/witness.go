package conformance

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Variable parts of a description that mean no difference.
var (
	uuids = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b`)
	// Numbers larger than a port: many clouds number their objects.
	numbers = regexp.MustCompile(`\b[1-9]\d{5,}\b`)
	times   = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?\b`)
	macs    = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)
	ipv4s   = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`)
	ipv6s   = regexp.MustCompile(`(?i)\b[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}\b`)
)

// normalise returns the sorted lines of a description, without the variable
// parts; ignored may be nil.
func normalise(description string, ips bool, ignored *regexp.Regexp) []string {
	text := description
	if ignored != nil {
		text = ignored.ReplaceAllString(text, "IGNORED")
	}
	text = times.ReplaceAllString(uuids.ReplaceAllString(text, "UUID"), "TIME")
	text = numbers.ReplaceAllString(text, "ID")
	if ips {
		text = ipv4s.ReplaceAllString(ipv6s.ReplaceAllString(macs.ReplaceAllString(text, "MAC"), "IP"), "IP")
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// witness describes the cloud's objects, independently of the guest, and the
// contents of the store.
func (k *kit) witness(ctx context.Context) ([]string, error) {
	lines := normalise(k.memory.describe(), false, nil)
	if k.Inspect == nil {
		return lines, nil
	}
	said, err := k.Inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("inspecting the cloud: %w", err)
	}
	return append(lines, normalise(said, k.IgnoreIPs, k.Ignore)...), nil
}

// same compares the witness with the wanted lines, and returns the differences.
// It repeats the query if the cloud is late.
func (k *kit) same(ctx context.Context, want []string) (differences []string) {
	for end := time.Now().Add(k.Settle); ; {
		got, err := k.witness(ctx)
		if err != nil {
			return []string{err.Error()}
		}
		differences = differ(want, got)
		if len(differences) == 0 || k.Inspect == nil || time.Now().After(end) || !sleep(ctx, k.Settle/10) {
			return differences
		}
	}
}

// maxDifferences bounds the lines of one comparison.
const maxDifferences = 10

// differ compares sorted lines, which may repeat.
func differ(want, got []string) (out []string) {
	count := map[string]int{}
	for _, line := range got {
		count[line]++
	}
	for _, line := range want {
		count[line]--
	}
	for _, line := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(want), got...)))) {
		switch n := count[line]; {
		case n > 0:
			out = append(out, "  more: "+text.Line(line, 300))
		case n < 0:
			out = append(out, "  less: "+text.Line(line, 300))
		}
	}
	if more := len(out) - maxDifferences; more > 0 {
		out = append(out[:maxDifferences], fmt.Sprintf("  and %d more lines", more))
	}
	return out
}

// state is the result of an op on a Service: the guest's status without the
// addresses themselves, and the witness's lines.
type state struct {
	status string
	lines  []string
}

func (c *check) state(ctx context.Context, s *corev1.Service) (state, bool) {
	got, o := c.lbGet(ctx, nil, s)
	if o.err != nil {
		c.failf(o, "Service %s: %s", s.Name, o)
		return state{}, false
	}
	lines, err := c.witness(ctx)
	if err != nil {
		c.failf(outcome{}, "%v", err)
		return state{}, false
	}
	return state{got.Existence.String() + " " + shape(got.Status), lines}, true
}

// checkState compares the state of a Service with that of an undisturbed run.
func (c *check) checkState(ctx context.Context, s *corev1.Service, want state, o outcome, after string) bool {
	before := c.failures
	got, get := c.lbGet(ctx, nil, s)
	if status := got.Existence.String() + " " + shape(got.Status); get.err != nil || status != want.status {
		c.failf(get, "%s: %s, %s, and undisturbed %s", after, get, status, want.status)
	}
	c.checkWitness(ctx, want.lines, o, after)
	return c.failures == before
}

func (c *check) checkWitness(ctx context.Context, want []string, o outcome, after string) bool {
	differences := c.same(ctx, want)
	if len(differences) > 0 {
		c.failf(o, "%s: the cloud keeps something else than undisturbed:\n%s", after, strings.Join(differences, "\n"))
	}
	return len(differences) == 0
}

// shape is a status without its addresses, which may differ each time.
func shape(s *abi.LoadBalancerStatus) string {
	var all []string
	for _, in := range cmp.Or(s, &abi.LoadBalancerStatus{}).Ingress {
		kind := "IPv4"
		switch {
		case strings.Contains(in.Ip, ":"):
			kind = "IPv6"
		case in.Ip == "":
			kind = ""
		}
		if in.Hostname != "" {
			kind += " hostname"
		}
		all = append(all, kind+" "+in.IpMode+" "+inJSON(in.Ports))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
