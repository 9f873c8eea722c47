package source

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

var digest = digestOf(nil)

func indexText(parts ...string) string {
	return fmt.Sprintf(`{"digest":%q,"parts":[%s]}`, digest, strings.Join(parts, ","))
}

func partText(name string) string { return fmt.Sprintf(`{"configMap":%q,"digest":%q}`, name, digest) }

func partTexts(n int) []string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = partText(fmt.Sprint("p", i))
	}
	return parts
}

func TestIndexIsDecodedStrictly(t *testing.T) {
	longest := make([]string, maxParts)
	for i := range longest {
		longest[i] = fmt.Sprintf(`{"configMap":"%0253d","key":"%0253d","digest":%q}`, i, i, digest)
	}
	for _, valid := range []string{
		indexText(partText("a")),
		indexText(partText("a"), partText("b.c-d")),
		indexText(partTexts(64)...),
		indexText(longest...),
		indexText(fmt.Sprintf(`{"configMap":"a","key":"x.part","digest":%q}`, digest), fmt.Sprintf(`{"configMap":"a","key":"y.part","digest":%q}`, digest)),
	} {
		if _, err := decodeIndex("p.wasm.parts", []byte(valid)); err != nil {
			t.Errorf("%.200s: %v", valid, err)
		}
	}
	for text, want := range map[string]string{
		"":                                      "unexpected end",
		"null":                                  "digest must be",
		"[]":                                    "cannot unmarshal array",
		"{}":                                    "digest must be",
		indexText():                             "0 parts, must have 1 to 64",
		indexText(partTexts(65)...):             "65 parts",
		indexText(partText("a"), partText("a")): "parts[1] is there twice",
		indexText(partText("a")) + "x":          "invalid character",
		indexText(partText("A")):                "parts[0].configMap:",
		indexText(partText("")):                 "parts[0].configMap:",
		indexText(partText("../../etc")):        "parts[0].configMap:",
		indexText(partText(strings.Repeat("a", 254))):                                                    "parts[0].configMap:",
		indexText(`{"configMap":"a","digest":""}`):                                                       "parts[0].digest must be",
		indexText(`{"configMap":"a","digest":"` + strings.ToUpper(digest) + `"}`):                        "parts[0].digest must be",
		indexText(`{"configMap":"a","digest":"sha256:` + strings.ToUpper(digest[7:]) + `"}`):             "parts[0].digest must be",
		indexText(`{"configMap":"a","digest":"` + digest[:70] + `"}`):                                    "parts[0].digest must be",
		indexText(fmt.Sprintf(`{"configMap":"a","key":"a/../b","digest":%q}`, digest)):                   "parts[0].key:",
		indexText(fmt.Sprintf(`{"configMap":"a","key":"..data","digest":%q}`, digest)):                   "parts[0].key:",
		indexText(fmt.Sprintf(`{"configmap":"a","digest":%q}`, digest)):                                  "unknown field",
		indexText(fmt.Sprintf(`{"configMap":"a","namespace":"b","digest":%q}`, digest)):                  "unknown field",
		indexText(fmt.Sprintf(`{"configMap":"a","configMap":"b","digest":%q}`, digest)):                  "duplicate field",
		indexText(fmt.Sprintf(`{"configMap":"a",%q:"b","digest":%q}`, strings.Repeat("x", 1e4), digest)): "unknown field",
		strings.Repeat("[", 1<<16): "max depth", "[[]]": "cannot unmarshal",
	} {
		x, err := decodeIndex("p.wasm.parts", []byte(text))
		var e *Error
		if x != nil || !errors.As(err, &e) || e.Reason != ReasonModuleIndexInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", text, err, want)
		} else if len(err.Error()) > 400 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

// FuzzIndex looks for an index that is taken though it is none, or that makes
// something panic.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(indexText(partText("a"))), []byte(""))
	f.Add([]byte(indexText(partTexts(3)...)), []byte("x"))
	f.Add([]byte(indexText(`{"configMap":"a","key":"k","digest":"sha256:x"}`)), []byte("x"))
	f.Add([]byte("null"), []byte(nil))
	limits := Limits{MaxModule: 4096, MaxCompressed: 64}
	f.Fuzz(func(t *testing.T, text, stored []byte) {
		x, err := decodeIndex("p.wasm.parts", text)
		var e *Error
		if err != nil {
			if x != nil || !errors.As(err, &e) || e.Reason == "" || len(err.Error()) > 400 {
				t.Errorf("error %v with %v", err, x)
			}
			return
		}
		if len(x.Parts) == 0 || len(x.Parts) > maxParts || len(x.configMaps()) > maxParts {
			t.Errorf("%d parts", len(x.Parts))
		}
		for _, p := range x.Parts {
			if len(validation.IsDNS1123Subdomain(p.ConfigMap)) > 0 || strings.ContainsAny(p.file(), "/\x00") || p.file() == "" || p.file() == ".." {
				t.Errorf("part %q", p)
			}
		}
		module, err := x.join(func(part, int64) ([]byte, error) { return stored, nil }, limits)
		if err == nil && (digestOf(module) != x.Digest || len(module) > 4096) {
			t.Errorf("%d bytes that do not fit", len(module))
		}
	})
}
