package text

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", -1, ""},
		{"aé", 2, "a"},
		{"€", 2, ""},
		{"\U0001f600x", 3, ""},
		{"\U0001f600x", 4, "\U0001f600"},
		{strings.Repeat("\x80", 9), 5, strings.Repeat("\x80", 5)},
	} {
		if got := Cut(c.text, c.most); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
		if got := Cut([]byte(c.text), c.most); string(got) != c.want {
			t.Errorf("Cut([]byte(%q), %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 10, ""},
		{" a b\n", 10, "a b"},
		{"first\nsecond", 20, "first; second"},
		{"tab\tand\r\nmore", 20, "tab and ; more"},
		{"no\u00a0break\u2028line", 20, "no break line"},
		{"a\x00b\x1b[2Jc\u202ed", 20, "a?b?[2Jc?d"},
		{"a\xff\xfeb\ufffd", 20, "a??b?"},
		{"\x1b", 20, "?"},
		{"schön ☃", 20, "schön ☃"},
		{"0123456789", 10, "0123456789"},
		{"0123456789a", 10, "0123456..."},
		{"012345€789a", 10, "012345..."},
		{"a          b", 5, "a ..."},
		{"abc", 2, ".."},
		{"abc", 0, ""},
	} {
		if got := Line(c.text, c.most); got != c.want {
			t.Errorf("Line(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestQuoteNameEscape(t *testing.T) {
	long := strings.Repeat("é", 60)
	for _, c := range []struct{ text, quote, name, escape string }{
		{"", `""`, "", ""},
		{"fd_read", `"fd_read"`, "fd_read", "fd_read"},
		{`say "\"`, `"say \"\\\""`, `"say \"\\\""`, `say "\"`},
		{"a\nb\x1b", `"a\nb\x1b"`, `"a\nb\x1b"`, `a\nb\x1b`},
		{"\xff\ufffd\u202e", `"\xff` + "\ufffd" + `\u202e"`, `"\xff` + "\ufffd" + `\u202e"`, `\xff` + "\ufffd" + `\u202e`},
		{long, `"` + long[:100] + `"...`, `"` + long[:100] + `"...`, long},
	} {
		if got := Quote(c.text); got != c.quote {
			t.Errorf("Quote(%q) = %s, want %s", c.text, got, c.quote)
		}
		if got := Name(c.text); got != c.name {
			t.Errorf("Name(%q) = %s, want %s", c.text, got, c.name)
		}
		if got := Escape(c.text); got != c.escape {
			t.Errorf("Escape(%q) = %s, want %s", c.text, got, c.escape)
		}
	}
}

func TestLabelAndDigest(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"--":                                "",
		"v1.2.3+dirty ☃":                    "v1.2.3-dirty",
		strings.Repeat("é", 100):            "",
		"a" + strings.Repeat("_", 70) + "b": "a",
		strings.Repeat("a", 70):             strings.Repeat("a", 63),
	} {
		if got := Label(text); got != want {
			t.Errorf("Label(%q) = %q, want %q", text, got, want)
		}
	}
	digest := strings.Repeat("0123456789abcdef", 4)
	if got := Digest(digest) + Config(digest) + Config(""); got != "0123456789ab, configuration sha256:0123456789ab" {
		t.Error(got)
	}
}

func TestRules(t *testing.T) {
	read := Rule{Resource: "configmaps", Names: []string{"a", "b"}, Verbs: []string{"list", "watch"}}
	leases := Rule{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"list"}}
	for got, want := range map[string]string{
		AddRules("ns", read): `with the Helm chart, give it in the values (providers; for a CloudProvider cloudProviders.rights; for a module in parts modulesNamespace); otherwise add to a Role in namespace ns that is bound to the manager's service account: ` +
			`{apiGroups: [""], resources: ["configmaps"], resourceNames: ["a", "b"], verbs: ["list", "watch"]}`,
		AddRules("", leases, read): `with the Helm chart, run helm upgrade; otherwise add to a ClusterRole that is bound to the manager's service account: ` +
			`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["list"]} and ` +
			`{apiGroups: [""], resources: ["configmaps"], resourceNames: ["a", "b"], verbs: ["list", "watch"]}`,
	} {
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// FuzzText: the shown form of any text is valid UTF-8, within its limit and
// without invisible runes, and showing it again changes nothing.
func FuzzText(f *testing.F) {
	f.Add(" first\nsecond\t\x1b[31m\u202e\xff\ufffd", 10)
	f.Add(strings.Repeat("\x80", 200), 3)
	f.Add("v1.2.3+dirty \U0001f600", -1)
	label := regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`) // of Kubernetes
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = min(most, 1<<20)
		for what, x := range map[string]struct {
			got   string
			most  int
			again func(string) string
		}{
			"Line":   {Line(text, most), max(most, 0), func(s string) string { return Line(s, most) }},
			"Escape": {Escape(text), 5 * len(text), Escape},
			"Label":  {Label(text), 63, Label},
			"Quote":  {Quote(text), 5*maxQuoted + 5, nil},
			"Name":   {Name(text), 5*maxQuoted + 5, nil},
		} {
			switch {
			case !utf8.ValidString(x.got) || strings.ContainsFunc(x.got, invisible):
				t.Errorf("%s(%q): %q cannot be shown", what, text, x.got)
			case len(x.got) > x.most:
				t.Errorf("%s(%q) has %d bytes, more than %d", what, text, len(x.got), x.most)
			case x.again != nil && x.again(x.got) != x.got:
				t.Errorf("%s(%q): %q becomes %q", what, text, x.got, x.again(x.got))
			}
		}
		if got := Label(text); !label.MatchString(got) {
			t.Errorf("Label(%q): %q is none", text, got)
		}
		got := Cut(text, most)
		if len(got) > max(most, 0) || !strings.HasPrefix(text, got) || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("Cut(%q, %d) = %q", text, most, got)
		}
	})
}
