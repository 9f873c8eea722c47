package credential

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestASessionThatIsEscaped: servers write a slash, an equals sign or an ampersand in a
// JSON text in several ways. The provider reads the placeholder all the same.
func TestASessionThatIsEscaped(t *testing.T) {
	for name, body := range map[string]string{
		"as it is":            `{"value": "abc/def+ghi=&jkl", "again": "abc/def+ghi=&jkl"}`,
		"as PHP does":         `{"value": "abc\/def+ghi=&jkl", "again": "abc\/def+ghi=&jkl"}`,
		"as Go does":          `{"value": "abc/def+ghi=\u0026jkl", "again": "abc/def+ghi=\u0026jkl"}`,
		"as .NET does":        `{"value": "abc/def\u002Bghi=\u0026jkl", "again": "abc/def\u002Bghi=\u0026jkl"}`,
		"in two ways at once": `{"value": "abc\/def+ghi=&jkl", "again": "abc/def\u002bghi=&jkl"}`,
	} {
		set, _ := newTestSet(t, newFakeSecrets("username", "user", "password", "s3cr3t-s3cr3t"), Spec{Basic: &Basic{}, Session: &Session{Header: "X-Session", Field: "value"}})
		answered, err := set.Apply(t.Context(), "cloud", "", newRequest(t, "https://cloud.example/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		raw := answered(200, http.Header{}, []byte(body))
		var got struct{ Value, Again string }
		if err := json.Unmarshal(raw, &got); err != nil || !strings.HasPrefix(got.Value, placeholderPrefix) {
			t.Errorf("%s: the provider reads %q of %s, %v", name, got.Value, raw, err)
		}
		var clean struct{ Value, Again string }
		if err := json.Unmarshal(set.Scrub(raw), &clean); err != nil || strings.Contains(clean.Value+clean.Again, "abc/def") {
			t.Errorf("%s: scrubbed it is %+v, %v", name, clean, err)
		}
	}
}
