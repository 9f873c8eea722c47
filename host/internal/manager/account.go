package manager

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// accountOf returns a function that asks the API server for a client's account.
// Every account has that right (system:basic-user).
func accountOf(client kubernetes.Interface) func(context.Context) (trial.Account, error) {
	return func(ctx context.Context) (trial.Account, error) {
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return trial.Account{}, fmt.Errorf("create SelfSubjectReview: %w", err)
		}
		return trial.Account{Name: review.Status.UserInfo.Username, UID: review.Status.UserInfo.UID}, nil
	}
}
