package upstream

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// written is a patch as text.
func written(p *abi.KubePatch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "uid %q", p.Uid)
	for what, values := range map[string]any{"annotations": p.Annotations, "labels": p.Labels, "remove annotations": p.RemoveAnnotations, "remove labels": p.RemoveLabels} {
		if text := fmt.Sprint(values); text != "map[]" && text != "[]" {
			fmt.Fprintf(&b, ", %s %s", what, text)
		}
	}
	return b.String()
}

// owned is the Service of the op, with an annotation.
func owned() *v1.Service {
	s := service("default", "web", v1.ServiceTypeLoadBalancer)
	s.Annotations, s.Labels = map[string]string{"example.com/old": "1", "example.com/pool": "a"}, map[string]string{"app": "web"}
	return s
}

func TestWrites(t *testing.T) {
	tests := []struct {
		name  string
		write func(context.Context, corev1.ServiceInterface) (*v1.Service, error)
		want  string
	}{
		{"merge", patching(types.MergePatchType, `{"metadata":{"uid":"u-web","annotations":{"example.com/pool":"b"}}}`), `uid "u-web", annotations map[example.com/pool:b]`},
		{"merge, of a version", patching(types.MergePatchType, `{"metadata":{"name":"web","namespace":"default","resourceVersion":"7","labels":{"tier":"x"}}}`), `uid "", labels map[tier:x]`},
		{"merge, removes", patching(types.MergePatchType, `{"metadata":{"annotations":{"example.com/old":null}}}`), `uid "", remove annotations [example.com/old]`},
		{"strategic", patching(types.StrategicMergePatchType, `{"kind":"Service","metadata":{"labels":{"tier":"x","app":null}}}`), `uid "", labels map[tier:x], remove labels [app]`},
		{"JSON patch", patching(types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/example.com~1pool","value":"b"},{"op":"remove","path":"/metadata/labels/app"}]`),
			`uid "", annotations map[example.com/pool:b], remove labels [app]`},
		{"update", updating(func(s *v1.Service) {
			s.Annotations = maps.Clone(s.Annotations)
			s.Annotations["example.com/pool"] = "b"
			delete(s.Annotations, "example.com/old")
		}), `uid "u-web", annotations map[example.com/pool:b], remove annotations [example.com/old]`},
		{"update of nothing", updating(func(*v1.Service) {}), "nothing"},
		{"an empty patch", patching(types.MergePatchType, `{"metadata":{"annotations":{}}}`), "nothing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			asking(t, func(c *cluster) { c.has(owned()) }, func(ctx context.Context, k *kube, c *cluster) {
				got, err := test.write(ctx, k.ClientOrDie("test").CoreV1().Services("default"))
				if err != nil {
					t.Fatal(err)
				}
				wrote := "nothing"
				if len(c.patches) == 1 && c.patches[0].Resource == "services" && c.patches[0].Namespace == "default" && c.patches[0].Name == "web" {
					wrote = written(c.patches[0].Patch)
				}
				if sorted(wrote) != sorted(test.want) || len(c.patches) > 1 {
					t.Errorf("%d patches, %s, want %s", len(c.patches), wrote, test.want)
				}
				if got.Name != "web" || strings.Contains(test.want, "pool:b") && got.Annotations["example.com/pool"] != "b" {
					t.Errorf("it is answered with %v", got.ObjectMeta)
				}
			})
		})
	}
}

func sorted(text string) string {
	parts := strings.Split(text, ", ")
	set := map[string]bool{}
	for _, part := range parts {
		set[part] = true
	}
	return fmt.Sprint(set)
}

func patching(kind types.PatchType, body string, subresources ...string) func(context.Context, corev1.ServiceInterface) (*v1.Service, error) {
	return func(ctx context.Context, services corev1.ServiceInterface) (*v1.Service, error) {
		return services.Patch(ctx, "web", kind, []byte(body), metav1.PatchOptions{}, subresources...)
	}
}

func updating(change func(*v1.Service)) func(context.Context, corev1.ServiceInterface) (*v1.Service, error) {
	return func(ctx context.Context, services corev1.ServiceInterface) (*v1.Service, error) {
		s, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		change(s)
		return services.Update(ctx, s, metav1.UpdateOptions{})
	}
}

// Most providers annotate a Service by upstream's helper, which patches its
// status.
func TestPatchService(t *testing.T) {
	asking(t, func(c *cluster) { c.has(owned()) }, func(ctx context.Context, k *kube, c *cluster) {
		client := k.ClientOrDie("test").CoreV1()
		old, err := client.Services("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		changed := old.DeepCopy()
		changed.Annotations["example.com/pool"] = "b"
		delete(changed.Annotations, "example.com/old")
		if _, err := helpers.PatchService(client, old, changed); err != nil {
			t.Fatal(err)
		}
		if len(c.patches) != 1 || sorted(written(c.patches[0].Patch)) != sorted(`uid "", annotations map[example.com/pool:b], remove annotations [example.com/old]`) {
			t.Errorf("the host got %v", c.patches)
		}
	})
}

// Changes beyond any grant are refused as forbidden, with the possible grants,
// and do not reach the host.
func TestWritesRefused(t *testing.T) {
	const metadataOnly = "annotations and labels"
	services := func(write func(context.Context, corev1.ServiceInterface) (*v1.Service, error)) func(context.Context, corev1.CoreV1Interface) error {
		return func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := write(ctx, core.Services("default"))
			return err
		}
	}
	for name, test := range map[string]struct {
		write func(context.Context, corev1.CoreV1Interface) error
		want  string
	}{
		"spec":               {services(patching(types.MergePatchType, `{"spec":{"type":"ClusterIP"}}`)), "the patch changes spec"},
		"finalizers":         {services(patching(types.MergePatchType, `{"metadata":{"finalizers":null}}`)), "metadata.finalizers"},
		"all annotations":    {services(patching(types.MergePatchType, `{"metadata":{"annotations":null}}`)), "annotations as a whole"},
		"a directive":        {services(patching(types.StrategicMergePatchType, `{"metadata":{"annotations":{"$patch":"replace"}}}`)), "$patch"},
		"status":             {services(patching(types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}`, "status")), "the patch changes status"},
		"another part":       {services(patching(types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`, "proxy")), metadataOnly},
		"another name":       {services(patching(types.MergePatchType, `{"metadata":{"name":"db"}}`)), "metadata.name"},
		"JSON patch of spec": {services(patching(types.JSONPatchType, `[{"op":"replace","path":"/spec/type","value":"ClusterIP"}]`)), "/spec/type"},
		"JSON patch of all":  {services(patching(types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations"}]`)), "/metadata/annotations"},
		"update of spec":     {services(updating(func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP })), "changes more than"},
		"update of status": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := core.Services("default").UpdateStatus(ctx, owned(), metav1.UpdateOptions{})
			return err
		}, metadataOnly},
		"apply": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := core.Services("default").Apply(ctx, applycorev1.Service("web", "default").WithAnnotations(map[string]string{"a": "b"}), metav1.ApplyOptions{FieldManager: "x"})
			return err
		}, metadataOnly},
		"another Service": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := core.Services("default").Patch(ctx, "db", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}, `only the object of the op can be changed, which is "Service/default/web"`},
		"a Node": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := core.Nodes().Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}, "only the object of the op"},
		"a ConfigMap": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := core.ConfigMaps("default").Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}, metadataOnly},
		"delete": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			return core.Services("default").Delete(ctx, "web", metav1.DeleteOptions{})
		}, metadataOnly},
		"create": {func(ctx context.Context, core corev1.CoreV1Interface) error {
			_, err := core.Services("default").Create(ctx, owned(), metav1.CreateOptions{})
			return err
		}, metadataOnly},
	} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(c *cluster) { c.has(owned()) }, func(ctx context.Context, k *kube, c *cluster) {
				err := test.write(ctx, k.ClientOrDie("test").CoreV1())
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %s", err, test.want)
				}
				if len(c.patches) > 0 {
					t.Errorf("the host got %v", c.patches)
				}
			})
		})
	}
}

// Errors of the host become those that client-go knows.
func TestWritesFail(t *testing.T) {
	pool := patching(types.MergePatchType, `{"metadata":{"annotations":{"example.com/pool":"b"}}}`)
	for name, test := range map[string]struct {
		fails error
		write func(context.Context, corev1.ServiceInterface) (*v1.Service, error)
		is    func(error) bool
	}{
		"not granted":        {&abi.Error{Code: abi.CodeDenied, Message: "add it to providers[].kube.annotations"}, pool, apierrors.IsForbidden},
		"made again":         {&abi.Error{Code: abi.CodeConflict, Message: "another UID"}, pool, apierrors.IsConflict},
		"no label":           {&abi.Error{Code: abi.CodeInvalid, Message: "no value of a label"}, pool, apierrors.IsBadRequest},
		"an old version":     {nil, patching(types.MergePatchType, `{"metadata":{"resourceVersion":"6","annotations":{"a":"b"}}}`), apierrors.IsConflict},
		"an old version PUT": {nil, updating(func(s *v1.Service) { s.ResourceVersion = "6" }), apierrors.IsConflict},
		"no JSON":            {nil, patching(types.MergePatchType, `{`), apierrors.IsBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(c *cluster) { c.has(owned()) }, func(ctx context.Context, k *kube, c *cluster) {
				c.fails = test.fails
				if _, err := test.write(ctx, k.ClientOrDie("test").CoreV1().Services("default")); !test.is(err) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A refusal is logged once.
func TestRefusalsAreToldOnce(t *testing.T) {
	asking(t, fill, func(ctx context.Context, k *kube, _ *cluster) {
		client := k.ClientOrDie("test")
		var lines strings.Builder
		log.SetOutput(&lines)
		for range 3 {
			_, _ = client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})                    // refused
			_ = client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}) // refused
		}
		log.SetOutput(os.Stderr) // nobody writes to lines any more
		if got := strings.Count(lines.String(), "is refused"); got != 2 {
			t.Errorf("%d lines:\n%s", got, lines.String())
		}
	})
}
