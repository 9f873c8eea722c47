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
	return fmt.Sprintf("with the Helm chart, %s; otherwise add to a %s that is bound to the manager's service account: %s", inChart(rules), role, strings.Join(all, " and "))
}

// inChart says what the chart needs for these rules. Its roles name the objects
// of its values, and have everything else in any case.
func inChart(rules []Rule) string {
	if len(rules) > 0 && len(rules[0].Names) > 0 && (rules[0].Resource == "configmaps" || rules[0].Resource == "secrets") {
		return "give it in the values (providers; for a CloudProvider cloudProviders.rights; for a module in parts modulesNamespace)"
	}
	return "run helm upgrade"
}
