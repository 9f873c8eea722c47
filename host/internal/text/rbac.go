package text

import (
	"fmt"
	"strings"
)

// Rule is a missing rule of RBAC.
type Rule struct {
	Group    string // "" is the group of ConfigMaps, Secrets and Services
	Resource string
	Names    []string // none: of any name; RBAC cannot restrict create by name
	Verbs    []string
}

// String returns the rule in the form of a Role.
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

// AddRules tells an administrator how to grant the manager these rules in a
// namespace; "" is for rules on the whole cluster.
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

// inChart names the chart's values for these rules. Its roles list the objects
// in the values; all other rules are always there.
func inChart(rules []Rule) string {
	if len(rules) > 0 && len(rules[0].Names) > 0 && (rules[0].Resource == "configmaps" || rules[0].Resource == "secrets") {
		return "give it in the values (providers; for a CloudProvider cloudProviders.rights; for a module in parts modulesNamespace)"
	}
	return "run helm upgrade"
}
