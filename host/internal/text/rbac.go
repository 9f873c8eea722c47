package text

import (
	"fmt"
	"strings"
)

// Rule is a rule of RBAC that is missing.
type Rule struct {
	Group    string // "" is that of ConfigMaps, Secrets and Services
	Resource string
	Names    []string // none: of any name; RBAC cannot restrict create by name
	Verbs    []string
}

// String returns the rule as it is written in a Role.
func (r Rule) String() string {
	names := ""
	if len(r.Names) > 0 {
		names = ", resourceNames: " + list(r.Names)
	}
	return fmt.Sprintf("{apiGroups: [%q], resources: [%q]%s, verbs: %s}", r.Group, r.Resource, names, list(r.Verbs))
}

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = Quote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// AddRules says how an administrator gives the manager these rules in a
// namespace; "" is for those that hold in the whole cluster.
func AddRules(namespace string, rules ...Rule) string {
	role := "Role in namespace " + namespace
	if namespace == "" {
		role = "ClusterRole"
	}
	all := make([]string, len(rules))
	for i, rule := range rules {
		all[i] = rule.String()
	}
	return fmt.Sprintf("add to a %s that is bound to the manager's service account: %s", role, strings.Join(all, " and "))
}
