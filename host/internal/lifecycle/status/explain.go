package status

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

func (o *Object) key(name string) string { return o.namespace + "/" + name }

// explain adds the name of the ConfigMap to an error of the API server, and to
// an error of missing rights the missing rule.
func (o *Object) explain(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s ConfigMap %s: %w", verb, o.key(name), err)
	if !apierrors.IsForbidden(err) {
		return err
	}
	on := text.Rule{Resource: "configmaps", Names: []string{name}, Verbs: []string{verb}}
	create := text.Rule{Resource: "configmaps", Verbs: []string{"create"}} // which RBAC cannot restrict by name
	rules := []text.Rule{on}
	switch verb {
	case "create":
		rules = []text.Rule{create}
	case "patch": // server-side apply creates a missing object
		rules = []text.Rule{on, create}
	case "list":
		rules[0].Verbs = []string{"list", "watch"}
	}
	return fmt.Errorf("%w; %s", err, text.AddRules(o.namespace, rules...))
}
