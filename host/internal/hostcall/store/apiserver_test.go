package store_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/store"
	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// TestAgainstAPIServer needs etcd and kube-apiserver in $KUBEBUILDER_ASSETS
// (make test sets it): the fake clientset compares no resourceVersions.
func TestAgainstAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	cluster, err := devcluster.Start(devcluster.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := cluster.Config()
	config.QPS = -1
	for name, test := range map[string]func(*testing.T, *rest.Config){
		"a write needs the current version": testVersions,
		"a deleted store is a conflict":     testDeletedStore,
		"allocators lose no update":         testAllocators,
		"the largest store fits":            testLargestStore,
		"missing rights are named":          testForbidden,
	} {
		t.Run(name, func(t *testing.T) { test(t, config) })
	}
}

// open returns the same store for the same test, with a client of its own.
func open(t *testing.T, config *rest.Config) *store.Store {
	t.Helper()
	provider := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	provider = provider[strings.Index(provider, "server-")+len("server-"):]
	return store.New(kubernetes.NewForConfigOrDie(config).CoreV1(), namespace, store.Name(provider), provider)
}

func testVersions(t *testing.T, config *rest.Config) {
	first, second := open(t, config), open(t, config)
	absent := mustRead(t, first, "").Version
	v1 := mustWrite(t, first, &abi.StoreWrite{Version: absent, Put: put("a", "1")}).Version
	if _, err := second.Write(t.Context(), &abi.StoreWrite{Version: absent, Put: put("a", "2")}); code(t, err) != abi.CodeConflict {
		t.Errorf("second creation: %v, want a conflict", err)
	}
	if got := mustRead(t, second, "").Version; got != v1 {
		t.Errorf("the version is %q, the write returned %q", got, v1)
	}
	v2 := mustWrite(t, second, &abi.StoreWrite{Version: v1, Put: put("b", "2"), Delete: []string{"a"}}).Version
	// first still believes in v1 and has it in memory.
	if _, err := first.Write(t.Context(), &abi.StoreWrite{Version: v1, Put: put("a", "3")}); code(t, err) != abi.CodeConflict {
		t.Errorf("stale write: %v, want a conflict", err)
	}
	got := mustRead(t, first, "")
	if diff := cmp.Diff([]string{"b", "2"}, pairs(got)); diff != "" || got.Version != v2 {
		t.Errorf("version %q, want %q; %s", got.Version, v2, diff)
	}
}

func testDeletedStore(t *testing.T, config *rest.Config) {
	s, other := open(t, config), open(t, config)
	v1 := mustWrite(t, s, &abi.StoreWrite{Version: "absent", Put: put("a", "1")}).Version
	configMaps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(namespace)
	name := store.Name("a-deleted-store-is-a-conflict")
	if err := configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), &abi.StoreWrite{Version: v1, Put: put("a", "2")}); code(t, err) != abi.CodeConflict {
		t.Errorf("after the deletion: %v, want a conflict", err)
	}
	mustWrite(t, other, &abi.StoreWrite{Version: "absent", Put: put("a", "new")})
	if _, err := s.Write(t.Context(), &abi.StoreWrite{Version: v1, Put: put("a", "2")}); code(t, err) != abi.CodeConflict {
		t.Errorf("after the creation: %v, want a conflict", err)
	}
	if diff := cmp.Diff([]string{"a", "new"}, pairs(mustRead(t, s, ""))); diff != "" {
		t.Error(diff)
	}
}

// testAllocators has several managers take numbers at the same time, each the
// first that is free, until there are none: nobody may get one twice.
func testAllocators(t *testing.T, config *rest.Config) {
	const managers, numbers = 4, 60
	taken := make([][]string, managers)
	var wg sync.WaitGroup
	for m := range managers {
		s := open(t, config)
		wg.Go(func() {
			for {
				key, err := allocate(t, s, numbers, "manager-"+strconv.Itoa(m))
				if err != nil {
					t.Error(err)
				}
				if key == "" || err != nil {
					return
				}
				taken[m] = append(taken[m], key)
			}
		})
	}
	wg.Wait()
	want := map[string]string{}
	for m, keys := range taken {
		for _, key := range keys {
			if owner, twice := want[key]; twice {
				t.Errorf("%s was given to %s and to manager %d", key, owner, m)
			}
			want[key] = "manager-" + strconv.Itoa(m)
		}
	}
	got := map[string]string{}
	for _, e := range mustRead(t, open(t, config), "").Entries {
		got[e.Key] = string(e.Value)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != numbers {
		t.Errorf("%d of %d numbers are taken; allocators against store: %s", len(got), numbers, diff)
	}
}

// allocate takes the first free number for owner; "" when none is free.
func allocate(t *testing.T, s *store.Store, numbers int, owner string) (string, error) {
	for {
		state, err := s.Read(t.Context(), "")
		if err != nil {
			return "", err
		}
		used := map[string]bool{}
		for _, e := range state.Entries {
			used[e.Key] = true
		}
		key := ""
		for i := range numbers {
			if k := fmt.Sprintf("n%03d", i); !used[k] {
				key = k
				break
			}
		}
		if key == "" {
			return "", nil
		}
		_, err = s.Write(t.Context(), &abi.StoreWrite{Version: state.Version, Put: put(key, owner)})
		if err == nil {
			return key, nil
		}
		if code(t, err) != abi.CodeConflict {
			return "", err
		}
	}
}

func testLargestStore(t *testing.T, config *rest.Config) {
	for name, write := range map[string]*abi.StoreWrite{
		"values": {Put: put("a", strings.Repeat("v", store.MaxValueBytes), "b", strings.Repeat("\n", store.MaxValueBytes),
			"c", strings.Repeat("\xff", store.MaxValueBytes), "d", strings.Repeat("<", store.MaxTotalBytes-3*store.MaxValueBytes-8))},
		"keys": {Put: longKeys(store.MaxTotalBytes / 506)},
	} {
		s := open(t, config)
		before := mustRead(t, s, "")
		write.Version = before.Version
		for _, e := range before.Entries {
			write.Delete = append(write.Delete, e.Key)
		}
		mustWrite(t, s, write)
		if got := mustRead(t, s, ""); len(got.Entries) != len(write.Put) {
			t.Errorf("%s: %d entries, want %d", name, len(got.Entries), len(write.Put))
		}
	}
}

func longKeys(n int) []*abi.StoreEntry {
	out := make([]*abi.StoreEntry, n)
	for i := range out {
		out[i] = &abi.StoreEntry{Key: fmt.Sprintf("%0253d", i)}
	}
	return out
}

func testForbidden(t *testing.T, config *rest.Config) {
	nobody := rest.CopyConfig(config)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	_, err := open(t, nobody).Read(t.Context(), "")
	if code(t, err) != abi.CodeDenied || !strings.Contains(err.Error(), `verbs: ["get"]`) {
		t.Errorf("Read = %v, want one that names the rule", err)
	}
}
