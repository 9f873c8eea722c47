package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// rights asks the API server for the accounts' rights that the configuration needs.
func (c *checker) rights(ctx context.Context) {
	switch {
	case c.plan.decoded == nil:
		return
	case c.plan.manifests():
		c.add(OK, "Rights", c.plan.name, "the chart brings the rights of its accounts; check again when it is installed", "")
		return
	case !c.installed():
		return
	}
	c.section("Rights", "serviceaccount "+c.own(), "the manager and its controllers have the rights that the configuration needs", func() {
		var lacking []Right
		for _, right := range Rights(c.Namespace, c.plan.decoded, c.plan.providers) {
			missing, err := c.missing(ctx, right)
			if err != nil {
				c.unknown("Rights", "cluster", "not checked: you may not ask what others may do (create subjectaccessreviews.authorization.k8s.io): "+err.Error())
				return
			}
			if right.Verbs = missing; len(missing) > 0 {
				lacking = together(lacking, right)
			}
		}
		for _, right := range lacking {
			c.lacks(right)
		}
	})
}

// lacks tells of a right that is missing, and the rule that gives it.
func (c *checker) lacks(right Right) {
	where := "serviceaccount " + right.Account
	what, mend := words(report.RightMissing, where, fmt.Sprintf("it may not %s %s%s", strings.Join(right.Verbs, ", "), right.object(), in(right.Namespace)), c.Namespace)
	c.add(Error, report.RightMissing, where, what, mend+"; or "+text.AddRules(right.Namespace, right.Rule))
}

// together adds a missing right to the list, merged with the last one if they
// differ only in the object's name.
func together(all []Right, r Right) []Right {
	if len(all) == 0 || len(r.Names) == 0 {
		return append(all, r)
	}
	last := &all[len(all)-1]
	if len(last.Names) == 0 || last.Account != r.Account || last.Namespace != r.Namespace || last.Group != r.Group || last.Resource != r.Resource || !slices.Equal(last.Verbs, r.Verbs) {
		return append(all, r)
	}
	last.Names = append(last.Names, r.Names...)
	return all
}

func (r Right) object() string {
	return strings.Join(append([]string{r.Resource}, r.Names...), " ")
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// missing are the verbs of a right that its account lacks.
func (c *checker) missing(ctx context.Context, r Right) (verbs []string, err error) {
	namespace, name, _ := strings.Cut(r.Account, "/")
	resource, sub, _ := strings.Cut(r.Resource, "/")
	for _, verb := range r.Verbs {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + name,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: r.Group, Resource: resource, Subresource: sub, Namespace: r.Namespace, Name: r.name(), Version: "*",
			},
		}}
		answer, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", name, err)
		}
		if !answer.Status.Allowed {
			verbs = append(verbs, verb)
		}
	}
	return verbs, nil
}

// accounts verifies that the manager's ServiceAccounts exist.
func (c *checker) accounts(ctx context.Context) {
	if c.seen.workload == nil {
		return
	}
	c.section("Accounts", "cluster", "the ServiceAccounts of the manager, its controllers and its viewer are there", func() {
		for _, name := range append([]string{managerName, managerName + "-viewer"}, controllers...) {
			namespace := c.Namespace
			if slices.Contains(controllers, name) {
				namespace = controllersNamespace
			}
			c.account(ctx, namespace, name)
		}
	})
}

func (c *checker) account(ctx context.Context, namespace, name string) {
	where := "serviceaccount " + namespace + "/" + name
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !c.plan.has("ServiceAccount", namespace, name) {
		c.tell(report.ServiceAccountMissing, where, "")
		return
	}
	c.readable(where, err)
}
