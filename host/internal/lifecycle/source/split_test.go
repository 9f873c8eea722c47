package source_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// noise returns bytes that do not compress.
func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

func split(t *testing.T, module []byte, o source.SplitOptions) []corev1.ConfigMap {
	t.Helper()
	maps, err := source.Split(module, name.Name, name.Namespace, o)
	must(t, err)
	return maps
}

func last(maps []corev1.ConfigMap) *corev1.ConfigMap { return &maps[len(maps)-1] }

// among returns what Join asks for a part.
func among(maps []corev1.ConfigMap) func(string) (*corev1.ConfigMap, error) {
	return func(name string) (*corev1.ConfigMap, error) {
		for i := range maps {
			if maps[i].Name == name {
				return &maps[i], nil
			}
		}
		return nil, nil
	}
}

func TestSplitModuleIsJoinedAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		module []byte
		maps   int
	}{
		{"small", []byte("module"), 1},
		{"what compresses well", make([]byte, 20<<20), 1},
		{"what just fits", noise(1, 700<<10-64), 1},
		{"what just does not fit", noise(1, 700<<10), 3},
		{"large", noise(1, 3<<20), 6},
		{"one with a distance larger than the smallest window", slices.Concat(noise(1, 9<<20), noise(1, 9<<20)), 28},
	} {
		for _, signature := range []string{"", "MEUCIQ==\n", ` {"mediaType": ""}`} {
			for _, config := range []string{"", "a: b", "\xff not text"} {
				t.Run(test.name, func(t *testing.T) {
					o := source.SplitOptions{Module: "static"}
					if len(test.module) > 10<<20 && (signature != "" || config != "") {
						return // once is enough, it takes a second
					}
					if signature != "" {
						o.Signature = []byte(signature)
					}
					if config != "" {
						o.Config = []byte(config)
					}
					maps := split(t, test.module, o)
					if test.maps != len(maps) {
						t.Errorf("%d ConfigMaps, want %d", len(maps), test.maps)
					}
					checkManifests(t, maps)
					bundle, err := source.Join(last(maps), among(maps), source.Limits{})
					must(t, err)
					if !bytes.Equal(bundle.Module, test.module) || string(bundle.Config) != config {
						t.Errorf("%d bytes of module and configuration %q", len(bundle.Module), bundle.Config)
					}
					wantSignature(t, bundle, signature)
					if bundle.Origin != "ConfigMap kube-system/cloud-provider" || bundle.Ref == nil || bundle.Ref.Name != name.Name || bundle.ConfigPrivate {
						t.Errorf("origin %q, reference %v, private %v", bundle.Origin, bundle.Ref, bundle.ConfigPrivate)
					}
				})
			}
		}
	}
}

func checkManifests(t *testing.T, maps []corev1.ConfigMap) {
	t.Helper()
	var names []string
	for _, cm := range maps {
		names = append(names, cm.Name)
		size := 0
		for _, value := range cm.BinaryData {
			size += len(value)
		}
		if size > 700<<10 || cm.Namespace != name.Namespace || cm.Kind != "ConfigMap" || cm.APIVersion != "v1" {
			t.Errorf("%d bytes in %s %s/%s", size, cm.Kind, cm.Namespace, cm.Name)
		}
	}
	if last(maps).Name != name.Name {
		t.Errorf("the index is not the last: %v", names)
	}
	parts, err := source.Parts(last(maps))
	must(t, err)
	slices.Sort(names[:len(names)-1])
	if diff := cmp.Diff(names[:len(names)-1], parts, cmp.Transformer("empty", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
		t.Errorf("the index names others: %s", diff)
	}
}

func TestSplitModulesShareNoParts(t *testing.T) {
	a, b := split(t, noise(1, 1<<20), source.SplitOptions{}), split(t, noise(2, 1<<20), source.SplitOptions{})
	again := split(t, noise(1, 1<<20), source.SplitOptions{Config: []byte("other")})
	for i := range a[:len(a)-1] {
		if a[i].Name == b[i].Name {
			t.Errorf("%s would be overwritten", a[i].Name)
		}
		if diff := cmp.Diff(a[i], again[i]); diff != "" {
			t.Errorf("the same module has other parts: %s", diff)
		}
	}
}

func TestSplitWithNamesForTheParts(t *testing.T) {
	names := []string{"m-a1", "m-a2", "m-a3"}
	maps := split(t, noise(1, 1<<20), source.SplitOptions{PartNames: names})
	if len(maps) != 3 || maps[0].Name != "m-a1" || maps[1].Name != "m-a2" {
		t.Errorf("%d ConfigMaps, %s, %s", len(maps), maps[0].Name, maps[1].Name)
	}
	bundle, err := source.Join(last(maps), among(maps), source.Limits{})
	must(t, err)
	if !bytes.Equal(bundle.Module, noise(1, 1<<20)) {
		t.Error("another module")
	}
	if maps := split(t, []byte("small"), source.SplitOptions{PartNames: names}); len(maps) != 1 || maps[0].Name != name.Name {
		t.Errorf("%v", maps)
	}
}

func TestSplitRefusesWhatDoesNotFit(t *testing.T) {
	large := noise(1, 1<<20)
	for _, test := range []struct {
		name   string
		module []byte
		o      source.SplitOptions
		text   string
	}{
		{"cloud-provider", nil, source.SplitOptions{}, "the module is empty"},
		{"Not A Name", large, source.SplitOptions{}, `"Not A Name" is not the name of a ConfigMap`},
		{"a", large, source.SplitOptions{Module: "a/b"}, `"a/b" is not the name of a module`},
		{"a", large, source.SplitOptions{ConfigKey: "confg.yaml"}, "config.EXTENSION"},
		{"a", large, source.SplitOptions{Signature: make([]byte, 64<<10+1)}, "the signature has more than 65536 bytes"},
		{"a", large, source.SplitOptions{Config: make([]byte, 1<<20+1)}, "the configuration has more than 1048576 bytes"},
		{"a", large, source.SplitOptions{Config: make([]byte, 1<<20)}, "make the configuration smaller"},
		{"a", large, source.SplitOptions{PartNames: []string{"one"}}, "needs 2 parts"},
		{"a", large, source.SplitOptions{PartNames: []string{"one", "one"}}, "twice"},
		{"a", large, source.SplitOptions{PartNames: []string{"one", "T"}}, "parts[1].configMap"},
		{strings.Repeat("a", 253), large, source.SplitOptions{}, "parts[0].configMap"},
		{"a", noise(1, 65*700<<10), source.SplitOptions{}, "more than 64 parts"},
	} {
		maps, err := source.Split(test.module, test.name, "ns", test.o)
		if err == nil || maps != nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%d ConfigMaps, error %v, want one with %q", len(maps), err, test.text)
		}
	}
}

func TestJoinRefusesWhatDoesNotFit(t *testing.T) {
	for name, test := range map[string]struct {
		change func(maps []corev1.ConfigMap)
		reason string
		text   string
	}{
		"missing part": {func(maps []corev1.ConfigMap) { maps[1].Name = "other" },
			source.ReasonModuleIncomplete, "ConfigMap kube-system/cloud-provider: part 2 of 2 (ConfigMap m-2, key m-2.part): it does not exist"},
		"missing key": {func(maps []corev1.ConfigMap) { maps[1].BinaryData = map[string][]byte{"other": {}} },
			source.ReasonModuleIncomplete, "part 2 of 2 (ConfigMap m-2, key m-2.part): it has no key m-2.part"},
		"another part": {func(maps []corev1.ConfigMap) { maps[0].BinaryData["m-1.part"][5]++ },
			source.ReasonModuleIncomplete, "part 1 of 2 (ConfigMap m-1, key m-1.part) is not the one that the index is about"},
		"exchanged parts": {func(maps []corev1.ConfigMap) {
			maps[0].BinaryData["m-1.part"], maps[1].BinaryData["m-2.part"] = maps[1].BinaryData["m-2.part"], maps[0].BinaryData["m-1.part"]
		}, source.ReasonModuleIncomplete, "part 1 of 2"},
		"index in another order": {func(maps []corev1.ConfigMap) { edit(maps, "m-1", "m-x", "m-2", "m-1", "m-x", "m-2") },
			source.ReasonModuleIncomplete, "part 1 of 2 (ConfigMap m-2"},
		"another index": {func(maps []corev1.ConfigMap) { edit(maps, `{"digest":"sha256:`, `{"digest":"sha256:0000`, "", "") },
			source.ReasonModuleIndexInvalid, "digest must be sha256: and 64 hexadecimal digits"},
		"another compression": {func(maps []corev1.ConfigMap) {
			maps[2].Data = map[string]string{"p.wasm.gz.parts": maps[2].Data["provider.wasm.zst.parts"]}
		}, source.ReasonModuleCompressionInvalid, "p.wasm.gz does not decompress"},
		"part of another name": {func(maps []corev1.ConfigMap) { maps[2].BinaryData["x.part"] = []byte("x") },
			source.ReasonUnknownKey, "x.part"},
	} {
		t.Run(name, func(t *testing.T) {
			maps := split(t, noise(1, 1<<20), source.SplitOptions{PartNames: []string{"m-1", "m-2"}})
			test.change(maps)
			bundle, err := source.Join(last(maps), among(maps), source.Limits{})
			checkError(t, err, test.reason, test.text)
			if bundle.Module != nil || bundle.Revision != "" || bundle.Ref == nil {
				t.Errorf("bundle %v", bundle)
			}
		})
	}
}

// edit replaces text in an index, pair by pair.
func edit(maps []corev1.ConfigMap, pairs ...string) {
	text := last(maps).Data["provider.wasm.zst.parts"]
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "" {
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
	}
	last(maps).Data["provider.wasm.zst.parts"] = text
}

// The parts fit one by one, and the digest of all is of others.
func TestJoinChecksAllPartsTogether(t *testing.T) {
	index := bytes.Replace(indexOf(t, []byte("a"), []byte("b")), []byte(digestOf([]byte("ab"))), []byte(digestOf([]byte("ba"))), 1)
	cm := configMap("u", map[string][]byte{"p.wasm.parts": index})
	parts := []corev1.ConfigMap{*configMap("", map[string][]byte{"x": []byte("a")}), *configMap("", map[string][]byte{"y": []byte("b")})}
	parts[0].Name, parts[1].Name = "part-0", "part-1"
	_, err := source.Join(cm, among(parts), source.Limits{})
	checkError(t, err, source.ReasonModuleIncomplete, "in order")

	cm.BinaryData["p.wasm.parts"] = indexOf(t, []byte("a"), []byte("b"))
	bundle, err := source.Join(cm, among(parts), source.Limits{})
	if err != nil || string(bundle.Module) != "ab" {
		t.Errorf("%q, %v", bundle.Module, err)
	}
	parts[1].Data = map[string]string{"z": "more"}
	_, err = source.Join(cm, among(parts), source.Limits{})
	checkError(t, err, source.ReasonModuleIncomplete, "part 2 of 2 (ConfigMap part-1): it has 2 keys")
}

func TestJoinLimitsTheParts(t *testing.T) {
	maps := split(t, noise(1, 2<<20), source.SplitOptions{})
	_, err := source.Join(last(maps), among(maps), source.Limits{MaxCompressed: 600 << 10})
	checkError(t, err, source.ReasonModuleTooLarge, "part 1 of 3")
	_, err = source.Join(last(maps), among(maps), source.Limits{MaxModule: 1 << 20})
	checkError(t, err, source.ReasonModuleTooLarge, "the first 2 parts have more than 1048576 bytes")
	maps = split(t, slices.Concat(noise(1, 2<<20), make([]byte, 60<<20)), source.SplitOptions{})
	_, err = source.Join(last(maps), among(maps), source.Limits{MaxModule: 61 << 20})
	checkError(t, err, source.ReasonModuleTooLarge, "provider.wasm.zst is a module of more than")
}

func TestJoinTellsWhyAPartCannotBeRead(t *testing.T) {
	maps, cause := split(t, noise(1, 1<<20), source.SplitOptions{}), errors.New("the network is down")
	_, err := source.Join(last(maps), func(string) (*corev1.ConfigMap, error) { return nil, cause }, source.Limits{})
	checkError(t, err, source.ReasonModuleIncomplete, "part 1 of 2")
	if !errors.Is(err, cause) {
		t.Errorf("%v does not wrap the cause", err)
	}
}
