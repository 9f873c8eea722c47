package credential

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func TestPinnedValuesStay(t *testing.T) {
	secret := func(version, password string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cloud", UID: "1", ResourceVersion: version},
			Data:       map[string][]byte{"password": []byte(password)},
		}
	}
	client := fake.NewClientset(secret("1", "old"))
	pinned := func() *Pinned {
		w := NewWatchedSecrets(client, []types.NamespacedName{{Namespace: "ns", Name: "cloud"}, {Namespace: "ns", Name: "later"}})
		p := NewPinned(w)
		go w.Run(t.Context())
		return p
	}
	p := pinned()
	version := p.Version(t.Context())
	check := func(p *Pinned, want string) {
		t.Helper()
		data, _, err := p.Get(t.Context(), "ns", "cloud")
		if err != nil || string(data["password"]) != want {
			t.Errorf("%q, %v; want %q", data["password"], err, want)
		}
	}
	check(p, "old")
	change := func(do func(context.Context) error) {
		t.Helper()
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-p.Changed()
	}
	secrets := client.CoreV1().Secrets("ns")
	change(func(ctx context.Context) error {
		_, err := secrets.Update(ctx, secret("2", "new"), metav1.UpdateOptions{})
		return err
	})
	check(p, "old")
	next := pinned()
	if next.Version(t.Context()) == version {
		t.Error("the version is the same")
	}
	check(next, "new")
	check(p, "old")
	p.Follow()
	check(p, "new")
	change(func(ctx context.Context) error {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "later"}}, metav1.CreateOptions{})
		return err
	})
	change(func(ctx context.Context) error { return secrets.Delete(ctx, "cloud", metav1.DeleteOptions{}) })
	for { // each watch of the fake client sees every Secret, and signals
		if _, _, err := p.Get(t.Context(), "ns", "cloud"); err != nil {
			return
		}
		<-p.Changed()
	}
}
