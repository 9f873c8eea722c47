package convert

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds on what one answer of a guest may hold.
const (
	MaxAddresses       = 64    // of one instance, or of the target of one route
	MaxLabels          = 128   // of one instance or one volume
	MaxIngress         = 64    // of one load balancer
	MaxPortStatuses    = 256   // of one ingress
	MaxRoutes          = 32768 // of one cluster
	MaxProviderIDBytes = 1024
	maxNameBytes       = 1024 // of a route
	maxAddressBytes    = 253  // a DNS name
	maxPortErrorBytes  = 316
)

// checkText refuses texts that would break logs, Events or an object's encoding.
func checkText(what, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(s), limit)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %s has bytes that are not printable", what, text.Quote(s))
	}
	return nil
}

// checkLabelValue refuses a label value that the API server would refuse; the empty string
// is valid.
func checkLabelValue(what, s string) error {
	if isPlain(s) {
		return nil
	}
	if problems := content.IsLabelValue(s); len(problems) > 0 {
		return fmt.Errorf("%s %s cannot be a label: %s", what, text.Quote(s), problems[0])
	}
	return nil
}

// isPlain reports whether s is an obviously valid label value, as nearly all are: letters
// and digits, with '-', '_' and '.' between them. The API server's regular expression would
// double the time of an op.
func isPlain(s string) bool {
	const maxLabelBytes = 63
	if len(s) > maxLabelBytes || strings.Trim(s, "-_.") != s {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// checkLabels refuses labels that the API server would refuse, and too many. ownDomain is
// the domain of labels that, among others, name a Node's provider.
const ownDomain = "wasm-ccm.dev"

func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels, at most %d are allowed", len(labels), MaxLabels)
	}
	for key, value := range labels {
		if problems := content.IsLabelKey(key); len(problems) > 0 {
			return fmt.Errorf("label key %s: %s", text.Quote(key), problems[0])
		}
		// Invariant P1 (host/SECURITY.md): no provider sets a label that decides about ownership.
		if domain, _, _ := strings.Cut(key, "/"); domain == ownDomain || strings.HasSuffix(domain, "."+ownDomain) {
			return fmt.Errorf("label key %s: only the manager and the administrator set labels of %s", text.Quote(key), ownDomain)
		}
		// Invariant N4 (host/SECURITY.md): no provider marks Nodes as control plane; half of these
		// must be Ready before one of them is deleted.
		if key == "node-role.kubernetes.io/control-plane" || key == "node-role.kubernetes.io/master" {
			return fmt.Errorf("label key %s: only the administrator assigns Nodes to the control plane", text.Quote(key))
		}
		if err := checkLabelValue("label "+key, value); err != nil {
			return err
		}
	}
	return nil
}
