package bodytemplate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// awkward has what each format escapes.
const awkward = `p&<w>"o'r\d/+% =é]]>--` + "\t"

const soap = `<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this>` +
	`<userName>$(username)</userName><password>$(password)</password></Login></Body></Envelope>`

func TestFill(t *testing.T) {
	for name, test := range map[string]struct{ contentType, text, want string }{
		"xml":       {"text/xml; charset=utf-8", `<a b="$(k)">$(k)</a>` + "\n", `<a b="p&amp;&lt;w&gt;&#34;o&#39;r\d/+% =é]]&gt;--&#x9;">p&amp;&lt;w&gt;&#34;o&#39;r\d/+% =é]]&gt;--&#x9;</a>`},
		"soap+xml":  {"application/soap+xml", `<a>$(k)</a>`, `<a>p&amp;&lt;w&gt;&#34;o&#39;r\d/+% =é]]&gt;--&#x9;</a>`},
		"json":      {"application/json", `{"user":"u","p":"x $(k)"}`, `{"user":"u","p":"x p\u0026\u003cw\u003e\"o'r\\d/+% =é]]\u003e--\t"}`},
		"form":      {"application/x-www-form-urlencoded", "u=a&p=$(k)\n", `u=a&p=p%26%3Cw%3E%22o%27r%5Cd%2F%2B%25+%3D%C3%A9%5D%5D%3E--%09`},
		"no mark":   {"application/json", `["$$(k)", "$5", "$$", "$(k)"]`, `["$(k)", "$5", "$$", "p\u0026\u003cw\u003e\"o'r\\d/+% =é]]\u003e--\t"]`},
		"many keys": {"application/json", `["$(other)$(k)"]`, `["op\u0026\u003cw\u003e\"o'r\\d/+% =é]]\u003e--\t"]`},
	} {
		t.Run(name, func(t *testing.T) {
			template, err := Parse(test.contentType, test.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.Fill(map[string]string{"k": awkward, "other": "o"})
			if err != nil || string(got) != test.want {
				t.Errorf("got  %s %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const x, j, f = "text/xml", "application/json", "application/x-www-form-urlencoded"
	for name, test := range map[string]struct{ contentType, text, says string }{
		"no type":               {"", "$(k)", "not a content type"},
		"plain text":            {"text/plain", "$(k)", "can be escaped only in"},
		"html":                  {"text/html", "<a>$(k)</a>", "can be escaped only in"},
		"another charset":       {"text/xml; charset=utf-16", "<a>$(k)</a>", "charset must be utf-8"},
		"too long":              {j, `"$(k)` + strings.Repeat("x", MaxBytes) + `"`, "the limit is 16384"},
		"no mark":               {j, `{}`, "0 marks"},
		"too many marks":        {j, `["` + strings.Repeat("$(k)", MaxMarks+1) + `"]`, "17 marks"},
		"a mark that is open":   {j, `["$(k"]`, "has no )"},
		"a key that is none":    {j, `["$(a b)"]`, "no key of a Secret"},
		"an empty key":          {j, `["$()"]`, "no key of a Secret"},
		"json, without quotes":  {j, `[$(k)]`, "between quotes"},
		"json, a name":          {j, `{"$(k)": 1}`, "where text stands"},
		"json, two values":      {j, `["$(k)"] []`, "not valid JSON"},
		"json, a name again":    {j, `{"a": "$(k)", "a": 1}`, "where text stands"},
		"xml, an element":       {x, `<$(k)></$(k)>`, "where text stands"},
		"xml, an attribute":     {x, `<a $(k)="1"/>`, "where text stands"},
		"xml, a namespace":      {x, `<a xmlns="$(k)"/>`, "where text stands"},
		"xml, a comment":        {x, `<a><!-- $(k) --></a>`, "where text stands"},
		"xml, an instruction":   {x, `<a><?b $(k)?></a>`, "where text stands"},
		"xml, CDATA":            {x, `<a><![CDATA[$(k)]]></a>`, "CDATA"},
		"xml, an entity":        {x, `<!DOCTYPE a [<!ENTITY b "$(k)">]><a>&b;</a>`, "DOCTYPE"},
		"xml, open":             {x, `<a>$(k)`, "well-formed"},
		"xml, another encoding": {x, `<?xml version="1.0" encoding="UTF-16"?><a>$(k)</a>`, "well-formed"},
		"form, a name":          {f, `$(k)=1`, "where text stands"},
		"form, a line break":    {f, "a=$(k)\n&b=c", "line breaks"},
		"form, broken":          {f, "a=%&b=$(k)", "not a form"},
		"what the check writes": {x, `<a b="wasm-ccm.sample.of.a.value"><!-- $(k) --></a>`, "where text stands"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(test.contentType, test.text); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}

func TestFillRefuses(t *testing.T) {
	for name, test := range map[string]struct{ contentType, text, value, says string }{
		"xml, a control character": {"text/xml", soap, "secret\x01", "that XML does not have"},
		"xml, not UTF-8":           {"text/xml", soap, "secret\xff", "that XML does not have"},
		"json, not UTF-8":          {"application/json", `["$(password)"]`, "secret\xff", "is not UTF-8"},
		"too much":                 {"application/json", `["` + strings.Repeat("$(password)", 16) + `"]`, strings.Repeat("secret\x01", 8<<10), "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			template, err := Parse(test.contentType, test.text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = template.Fill(map[string]string{"username": "user", "password": test.value})
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q and no value", err, test.says)
			}
		})
	}
}

// FuzzTemplate: whatever the template and the value, a reader of the format
// finds the value where the mark was, and everything else as it was.
func FuzzTemplate(f *testing.F) {
	f.Add("text/xml", soap, awkward)
	f.Add("text/xml", `<a b='$(k)'>x$(k)y<!-- c --></a>`, `' c="`)
	f.Add("application/json", `{"a":["$(k)",{"b":"$$($(k)"}],"c":1}`, `"],"c":"2`)
	f.Add("application/x-www-form-urlencoded", `a=1&b=$(k)&c=%24`, `1&d=e`)
	f.Fuzz(func(t *testing.T, contentType, text, value string) {
		template, err := Parse(contentType, text)
		if err != nil || value == "" {
			return
		}
		fill := func(value string) ([]byte, error) {
			values := map[string]string{}
			for _, key := range template.Keys() {
				values[key] = value
			}
			return template.Fill(values)
		}
		body, err := fill(value)
		if err != nil {
			return
		}
		plain, err := fill(sample)
		if err != nil {
			t.Fatal(err)
		}
		read := readerOf(t, contentType)
		if got, want := read(body), strings.ReplaceAll(read(plain), sample, value); got != want {
			t.Errorf("%q with %q is read as\n%q, want\n%q", text, value, got, want)
		}
	})
}

// readerOf returns a reader of the format, which writes down all that it has
// read, in order.
func readerOf(t *testing.T, contentType string) func([]byte) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.HasSuffix(media, "urlencoded"):
		return readForm
	case strings.HasSuffix(media, "json"):
		return readJSON
	}
	return readXML
}

func readForm(body []byte) string {
	pairs, err := url.ParseQuery(string(body))
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		fmt.Fprintf(&out, "%s\x00%s\x00", name, strings.Join(pairs[name], "\x00"))
	}
	return fmt.Sprint(out.String(), err)
}

func readJSON(body []byte) string {
	var out strings.Builder
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.Token()
		if err != nil {
			return fmt.Sprint(out.String(), err)
		}
		fmt.Fprintf(&out, "%T %v\x00", token, token)
	}
}

func readXML(body []byte) string {
	var out strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.RawToken()
		if err != nil {
			return fmt.Sprint(out.String(), err)
		}
		fmt.Fprintf(&out, "%T ", token)
		switch token := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(&out, "%v\x00", token.Name)
			for _, a := range token.Attr {
				fmt.Fprintf(&out, "%v %s\x00", a.Name, a.Value)
			}
		case xml.EndElement:
			fmt.Fprintf(&out, "%v\x00", token.Name)
		case xml.CharData:
			fmt.Fprintf(&out, "%s\x00", token)
		case xml.Comment:
			fmt.Fprintf(&out, "%s\x00", token)
		}
	}
}
