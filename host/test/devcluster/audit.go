package devcluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// maxAuditLine bounds one line of the audit log; at level Metadata a line has
// about 1 KiB.
const maxAuditLine = 1 << 20

// auditPolicy records who wrote what, once the request is done.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// Write is one request that asked the kube-apiserver for a change, whether or
// not anything changed by it.
type Write struct {
	User        string
	Verb        string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
}

// String gives it as "patch nodes/status/NAME" for messages.
func (w Write) String() string {
	resource := w.Resource
	if w.Subresource != "" {
		resource += "/" + w.Subresource
	}
	return fmt.Sprintf("%s: %s %s %s/%s", w.User, w.Verb, resource, w.Namespace, w.Name)
}

func (c *Cluster) auditLog() string { return filepath.Join(c.options.Dir, "audit.log") }

func (c *Cluster) configureAudit(args *envtest.Arguments) error {
	policy := filepath.Join(c.options.Dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	args.Set("audit-policy-file", policy)
	args.Set("audit-log-path", c.auditLog())
	return nil
}

// Writes returns the writes so far of the user to the resources (e.g. "nodes",
// "services"), in order. It needs Options.Audit.
func (c *Cluster) Writes(user string, resources ...string) ([]Write, error) {
	f, err := os.Open(c.auditLog())
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	var writes []Write
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		w, err := parseAudit(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("audit log %s: %w", f.Name(), err)
		}
		if w.User == user && slices.Contains(resources, w.Resource) {
			writes = append(writes, w)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("audit log %s: %w", f.Name(), err)
	}
	return writes, nil
}

func parseAudit(line []byte) (Write, error) {
	var event struct {
		Verb string
		User struct{ Username string }
		// Absent for requests outside of the API's resources.
		ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Write{}, err
	}
	ref := event.ObjectRef
	return Write{User: event.User.Username, Verb: event.Verb, Resource: ref.Resource,
		Subresource: ref.Subresource, Namespace: ref.Namespace, Name: ref.Name}, nil
}
