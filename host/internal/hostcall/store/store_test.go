package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/store"
)

const namespace = "kube-system"

func newFake(objects ...runtime.Object) (*store.Store, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	// The fake clientset gives no UIDs.
	client.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		action.(clienttesting.CreateAction).GetObject().(*corev1.ConfigMap).UID = "uid"
		return false, nil, nil
	})
	return store.New(client.CoreV1(), namespace, store.Name("static"), "static"), client
}

func put(pairs ...string) []*abi.StoreEntry {
	var out []*abi.StoreEntry
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, &abi.StoreEntry{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return out
}

// pairs is the inverse of put.
func pairs(response *abi.StoreResponse) []string {
	var out []string
	for _, e := range response.Entries {
		out = append(out, e.Key, string(e.Value))
	}
	return out
}

func code(t *testing.T, err error) abi.Code {
	t.Helper()
	var e *abi.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is no *abi.Error", err, err)
	}
	return e.Code
}

func mustRead(t *testing.T, s *store.Store, prefix string) *abi.StoreResponse {
	t.Helper()
	response, err := s.Read(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func mustWrite(t *testing.T, s *store.Store, write *abi.StoreWrite) *abi.StoreResponse {
	t.Helper()
	response, err := s.Write(t.Context(), write)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestAbsentStoreHasAVersionAndNoEntries(t *testing.T) {
	s, _ := newFake()
	got := mustRead(t, s, "")
	if got.Version == "" || len(got.Entries) != 0 {
		t.Errorf("Read = %v, want a version and no entries", got)
	}
}

func TestReadIsSortedAndFilteredByPrefix(t *testing.T) {
	s, _ := newFake()
	write := &abi.StoreWrite{Version: mustRead(t, s, "").Version, Put: put("ip.2", "b", "ip.1", "\xff\x00", "name", "c")}
	mustWrite(t, s, write)
	for prefix, want := range map[string][]string{
		"":    {"ip.1", "\xff\x00", "ip.2", "b", "name", "c"},
		"ip.": {"ip.1", "\xff\x00", "ip.2", "b"},
		"?":   nil,
	} {
		if diff := cmp.Diff(want, pairs(mustRead(t, s, prefix))); diff != "" {
			t.Errorf("prefix %q: %s", prefix, diff)
		}
	}
}

func TestConfigMapIsReadableAndExplained(t *testing.T) {
	s, client := newFake()
	first := &abi.StoreWrite{Version: "absent", Put: put("text", "line\nünicode", "esc", "\x1b[2J", "bytes", "\xff", "gone", "")}
	v := mustWrite(t, s, first).Version
	// A key may change between text and bytes.
	mustWrite(t, s, &abi.StoreWrite{Version: v, Put: put("bytes", "now text"), Delete: []string{"gone", "never-there"}})
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "wasm-ccm-store-static", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"text": "line\nünicode", "bytes": "now text"}, cm.Data); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]byte{"esc": []byte("\x1b[2J")}, cm.BinaryData); diff != "" {
		t.Error(diff)
	}
	if got := cm.Labels[store.LabelStore]; got != "static" {
		t.Errorf("label %s = %q", store.LabelStore, got)
	}
	if got := cm.Annotations[store.AnnotationDescription]; !strings.Contains(got, "Do not edit or delete") {
		t.Errorf("description = %q", got)
	}
}

func TestForeignConfigMapIsRefusedAndLeftAlone(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"no marker":      nil,
		"other provider": {store.LabelStore: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: store.Name("static"), UID: "u", ResourceVersion: "1", Labels: labels},
				Data:       map[string]string{"precious": "data"},
			}
			s, client := newFake(foreign)
			if _, err := s.Read(t.Context(), ""); code(t, err) != abi.CodeDenied || !strings.Contains(err.Error(), "kube-system/wasm-ccm-store-static") {
				t.Errorf("Read: %v", err)
			}
			if _, err := s.Write(t.Context(), &abi.StoreWrite{Version: "u/1", Put: put("a", "b")}); code(t, err) != abi.CodeDenied {
				t.Errorf("Write: %v", err)
			}
			for _, action := range client.Actions() {
				if action.GetVerb() != "get" {
					t.Errorf("the ConfigMap was touched: %v", action)
				}
			}
		})
	}
}

func TestInvalidWritesChangeNothing(t *testing.T) {
	many := make([]*abi.StoreEntry, store.MaxEntries+1)
	for i := range many {
		many[i] = &abi.StoreEntry{Key: fmt.Sprint(i)}
	}
	full := make([]*abi.StoreEntry, store.MaxTotalBytes/store.MaxValueBytes+1)
	for i := range full {
		full[i] = &abi.StoreEntry{Key: fmt.Sprint(i), Value: make([]byte, store.MaxValueBytes)}
	}
	for name, test := range map[string]struct {
		write *abi.StoreWrite
		want  abi.Code
		text  string
	}{
		"no version":      {&abi.StoreWrite{Put: put("a", "b")}, abi.CodeInvalid, "write.version is empty"},
		"nothing":         {nil, abi.CodeInvalid, "write.version is empty"},
		"empty key":       {&abi.StoreWrite{Version: "absent", Put: put("", "b")}, abi.CodeInvalid, `key ""`},
		"key with slash":  {&abi.StoreWrite{Version: "absent", Put: put("a/b", "")}, abi.CodeInvalid, `key "a/b"`},
		"long key":        {&abi.StoreWrite{Version: "absent", Put: put(strings.Repeat("k", 254), "")}, abi.CodeInvalid, "253"},
		"parent as key":   {&abi.StoreWrite{Version: "absent", Put: put("..", "")}, abi.CodeInvalid, `".."`},
		"bad deletion":    {&abi.StoreWrite{Version: "absent", Delete: []string{"a b"}}, abi.CodeInvalid, `key "a b"`},
		"put twice":       {&abi.StoreWrite{Version: "absent", Put: put("a", "1", "a", "2")}, abi.CodeInvalid, "twice"},
		"put and deleted": {&abi.StoreWrite{Version: "absent", Put: put("a", "1"), Delete: []string{"a"}}, abi.CodeInvalid, "twice"},
		"large value":     {&abi.StoreWrite{Version: "absent", Put: put("a", strings.Repeat("x", store.MaxValueBytes+1))}, abi.CodeTooLarge, "limit"},
		"too many":        {&abi.StoreWrite{Version: "absent", Put: many}, abi.CodeTooLarge, "4097 entries"},
		"too much":        {&abi.StoreWrite{Version: "absent", Put: full}, abi.CodeTooLarge, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newFake()
			_, err := s.Write(t.Context(), test.write)
			if got := code(t, err); got != test.want || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Write = %v (%v), want %v with %q", err, got, test.want, test.text)
			}
			if got := mustRead(t, s, ""); got.Version != "absent" {
				t.Errorf("the store exists: %v", got)
			}
		})
	}
}

func TestStaleVersionIsAConflict(t *testing.T) {
	s, _ := newFake()
	mustWrite(t, s, &abi.StoreWrite{Version: "absent", Put: put("a", "1")})
	for _, version := range []string{"absent", "other/1"} {
		if _, err := s.Write(t.Context(), &abi.StoreWrite{Version: version, Put: put("a", "2")}); code(t, err) != abi.CodeConflict {
			t.Errorf("version %q: %v, want a conflict", version, err)
		}
	}
	if diff := cmp.Diff([]string{"a", "1"}, pairs(mustRead(t, s, ""))); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsOfTheAPIServer(t *testing.T) {
	resource := corev1.Resource("configmaps")
	for name, test := range map[string]struct {
		verb string
		err  error
		want abi.Code
		text string
	}{
		"get forbidden":     {"get", apierrors.NewForbidden(resource, "n", errors.New("no")), abi.CodeDenied, `resourceNames: ["wasm-ccm-store-static"], verbs: ["get"]`},
		"create forbidden":  {"create", apierrors.NewForbidden(resource, "n", errors.New("no")), abi.CodeDenied, `resources: ["configmaps"], verbs: ["create"]`},
		"unauthorized":      {"get", apierrors.NewUnauthorized("no"), abi.CodeDenied, "credentials"},
		"server timeout":    {"get", apierrors.NewServerTimeout(resource, "get", 1), abi.CodeUnavailable, ""},
		"timeout":           {"create", apierrors.NewTimeoutError("slow", 1), abi.CodeUnavailable, ""},
		"refused":           {"get", errors.New("connection refused"), abi.CodeUnavailable, "connection refused"},
		"deadline":          {"get", context.DeadlineExceeded, abi.CodeDeadline, ""},
		"throttled":         {"get", apierrors.NewTooManyRequests("slow down", 7), abi.CodeThrottled, ""},
		"no namespace":      {"create", apierrors.NewNotFound(corev1.Resource("namespaces"), namespace), abi.CodeInvalid, "create the namespace"},
		"created meanwhile": {"create", apierrors.NewAlreadyExists(resource, "n"), abi.CodeConflict, "read it again"},
		"too large":         {"create", apierrors.NewRequestEntityTooLargeError("big"), abi.CodeTooLarge, ""},
		"invalid":           {"create", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "n", nil), abi.CodeInternal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newFake()
			client.PrependReactor(test.verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			_, err := s.Write(t.Context(), &abi.StoreWrite{Version: "absent", Put: put("a", "b")})
			if got := code(t, err); got != test.want || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v (%v), want %v with %q", err, got, test.want, test.text)
			}
		})
	}
}

func TestThrottledSaysWhenToAskAgain(t *testing.T) {
	s, client := newFake()
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewTooManyRequests("slow down", 7)
	})
	_, err := s.Read(t.Context(), "")
	var e *abi.Error
	if !errors.As(err, &e) || e.RetryAfter != 7*time.Second {
		t.Errorf("%v, want a retry after 7s", err)
	}
}

func TestUpdateThatFindsNoConfigMapIsAConflict(t *testing.T) {
	s, client := newFake(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: store.Name("static"), UID: "u", ResourceVersion: "1", Labels: map[string]string{store.LabelStore: "static"}}})
	v := mustRead(t, s, "").Version
	if err := client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), store.Name("static"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), &abi.StoreWrite{Version: v, Put: put("a", "b")}); code(t, err) != abi.CodeConflict {
		t.Errorf("%v, want a conflict", err)
	}
}

func TestNothingOfACallerIsKept(t *testing.T) {
	s, _ := newFake()
	value := []byte{0xff}
	v := mustWrite(t, s, &abi.StoreWrite{Version: "absent", Put: []*abi.StoreEntry{{Key: "a", Value: value}}}).Version
	value[0] = 'x'
	mustRead(t, s, "").Entries[0].Value[0] = 'y'
	mustWrite(t, s, &abi.StoreWrite{Version: v, Put: put("b", "")})
	if got := mustRead(t, s, "a").Entries[0].Value; !bytes.Equal(got, []byte{0xff}) {
		t.Errorf("the value is %q", got)
	}
}
