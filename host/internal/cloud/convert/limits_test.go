package convert

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// What is plain is what the API server takes, in all that a byte can change.
func TestPlainIsWhatTheAPIServerTakes(t *testing.T) {
	for c := range 256 {
		b := string([]byte{byte(c)})
		for _, s := range []string{b, b + "a", "a" + b, "a" + b + "a", b + b, "", strings.Repeat("a", 62) + b, strings.Repeat("a", 61) + b + "a", strings.Repeat("a", 63) + b, "zürich"} {
			if valid := len(content.IsLabelValue(s)) == 0; isPlain(s) != valid {
				t.Errorf("%q: plain %t, valid %t", s, isPlain(s), valid)
			}
		}
	}
}
