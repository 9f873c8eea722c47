package status

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (o *Object) key(name string) string { return o.namespace + "/" + name }

// explain says which ConfigMap an error of the API server is about, and which
// rule is missing when it is one of missing rights.
func (o *Object) explain(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s ConfigMap %s: %w", verb, o.key(name), err)
	if !apierrors.IsForbidden(err) {
		return err
	}
	rule := func(names, verb string) string {
		return fmt.Sprintf("{apiGroups: [\"\"], resources: [\"configmaps\"]%s, verbs: [%s]}", names, verb)
	}
	names, create := fmt.Sprintf(", resourceNames: [%q]", name), rule("", `"create"`)
	rules := rule(names, fmt.Sprintf("%q", verb))
	switch verb {
	case "create": // which RBAC cannot restrict by name
		rules = create
	case "patch": // as server-side apply, which creates what is not there
		rules += " and " + create
	case "list":
		rules = rule(names, `"list", "watch"`)
	}
	return fmt.Errorf("%w; add to a Role in namespace %s that is bound to the manager's service account: %s", err, o.namespace, rules)
}
