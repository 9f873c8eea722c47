package check

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// each visits all objects of a list, in pages of 500: a large cluster has more Pods than
// fit into an answer, or into memory. A visitor copies what it keeps, since a reference to
// one object keeps its whole page. Without an error it has visited all objects.
func each[L runtime.Object, T any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), o metav1.ListOptions, visit func(*T)) error {
	page := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
	return pager.New(page).EachListItem(ctx, o, func(object runtime.Object) error {
		if one, ok := any(object).(*T); ok {
			visit(one)
		}
		return nil
	})
}
