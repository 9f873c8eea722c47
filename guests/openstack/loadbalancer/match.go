package loadbalancer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// floatingSubnets are the configured subnets of the floating IP; none if not
// configured. One call if they are.
func (w *work) floatingSubnets(network string) ([]subnet, error) {
	n := w.networks
	if n.floatingSubnet != "" {
		return []subnet{{ID: n.floatingSubnet}}, nil // Neutron checks that it is in the network
	}
	if w.address != "" || (n.floatingName == "" && n.floatingTag == "") {
		return nil, nil
	}
	matches, err := nameMatcher(n.floatingName)
	if err != nil {
		return nil, err
	}
	query := []string{"network_id", network}
	if n.floatingTag != "" {
		query = append(query, tagFilter(n.floatingTag)...)
	}
	var found []subnet
	if err := readAll(w.c, subnets(&found, query...)); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(s subnet) bool { return s.NetworkID != network || !matches(s.Name) })
	if len(found) == 0 {
		return nil, sdk.Invalidf("the network %s has no subnet that matches floating-subnet %q and floating-subnet-tags %q", network, n.floatingName, n.floatingTag)
	}
	return found, nil
}

// nameMatcher reads a glob, or after "~" a regular expression. A leading "!"
// inverts either.
func nameMatcher(pattern string) (func(name string) bool, error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	rest, not := strings.CutPrefix(pattern, "!")
	expression, isRegexp := strings.CutPrefix(rest, "~")
	if !isRegexp {
		expression = globExpression(rest)
	}
	re, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nil, sdk.Invalidf("floating-subnet: %.100q is neither a glob nor a regular expression behind ~", pattern)
	}
	return func(name string) bool { return re.MatchString(name) != not }, nil
}

// globExpression knows *, ?, **, {a,b} and [a-z], as cloud-provider-openstack
// does.
func globExpression(glob string) string {
	var b strings.Builder
	braces := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '*' && strings.HasPrefix(glob[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '{':
			braces++
			b.WriteString("(?:")
		case c == '}' && braces > 0:
			braces--
			b.WriteByte(')')
		case c == ',' && braces > 0:
			b.WriteByte('|')
		case c == '[' || c == ']' || c == '-':
			b.WriteByte(c)
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	return b.String()
}

// tagFilter lets Neutron choose by tags: "a,b" any, "&a,b" all, and a leading
// "!" inverts.
func tagFilter(spec string) []string {
	list, not := strings.CutPrefix(spec, "!")
	list, all := strings.CutPrefix(list, "&")
	tags := strings.Split(list, ",")
	for i := range tags {
		tags[i] = strings.TrimSpace(tags[i])
	}
	name := map[[2]bool]string{
		{false, false}: "tags-any", {false, true}: "tags", {true, false}: "not-tags-any", {true, true}: "not-tags",
	}[[2]bool{not, all}]
	return []string{name, strings.Join(tags, ",")}
}
