// Package bodytemplate fills an administrator's request body, with marks for values of a
// Secret: $(KEY). The format limits a value's effect on the body: it is escaped, and a mark
// is valid only where text may stand.
package bodytemplate

import (
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Bounds of a template.
const (
	MaxBytes = 16 << 10
	MaxMarks = 16
	// MaxFilledBytes is the size of the largest body that Fill returns.
	MaxFilledBytes = 1 << 20
)

// Template is a body with marks. It is immutable and safe for concurrent use.
type Template struct {
	parts  []part
	format format
}

// part is literal text, or the key of a value.
type part struct{ text, key string }

// format is how a content type's bodies hold values.
type format struct {
	// escape returns a value as written in the body. Its error holds no value.
	escape func(value string) (string, error)
	// places returns how many samples are where a value may be, in a body with the sample at
	// each mark.
	places func(body, sample string) (int, error)
}

// Parse reads the template of a body with this content type: XML, JSON or a form, in UTF-8.
// $(KEY) is the value of a key, $$( is $( itself. Trailing line breaks are dropped. Errors
// quote nothing of the text.
func Parse(contentType, text string) (*Template, error) {
	f, err := formatOf(contentType)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(text), MaxBytes)
	}
	t := &Template{format: f}
	if t.parts, err = split(strings.TrimRight(text, "\r\n")); err != nil {
		return nil, err
	}
	return t, t.check()
}

// CheckContentType returns why Parse refuses this content type.
func CheckContentType(contentType string) error {
	_, err := formatOf(contentType)
	return err
}

// formatOf returns the format of a media type.
func formatOf(contentType string) (format, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return format{}, errors.New("it is not a content type; write one as application/json")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return format{}, errors.New("its charset must be utf-8")
	}
	_, kind, _ := strings.Cut(media, "/")
	switch {
	case kind == "xml" || strings.HasSuffix(kind, "+xml"):
		return format{escapeXML, placesInXML}, nil
	case kind == "json" || strings.HasSuffix(kind, "+json"):
		return format{escapeJSON, placesInJSON}, nil
	case media == "application/x-www-form-urlencoded":
		return format{escapeForm, placesInForm}, nil
	}
	return format{}, errors.New("values can be escaped only in XML, JSON and application/x-www-form-urlencoded")
}

// split finds the marks.
func split(text string) (parts []part, err error) {
	for {
		before, after, found := strings.Cut(text, "$(")
		if literal, escaped := strings.CutSuffix(before, "$"); found && escaped {
			parts = append(parts, part{text: literal + "$("})
			text = after
			continue
		}
		if parts = append(parts, part{text: before}); !found {
			return parts, nil
		}
		key, rest, closed := strings.Cut(after, ")")
		if !closed {
			return nil, errors.New("a $( has no ); write $$( for $( itself")
		}
		if len(validation.IsConfigMapKey(key)) > 0 {
			return nil, errors.New("between $( and ) stands no key of a Secret; write $$( for $( itself")
		}
		parts, text = append(parts, part{key: key}), rest
	}
}

// sample replaces each mark for the check.
const sample = "wasm-ccm.sample.of.a.value"

// check verifies that each mark is where a value may be.
func (t *Template) check() error {
	marks, foreign := 0, 0
	var body strings.Builder
	for _, p := range t.parts {
		foreign += strings.Count(p.text, sample)
		if body.WriteString(p.text); p.key != "" {
			body.WriteString(sample)
			marks++
		}
	}
	if marks == 0 || marks > MaxMarks {
		return fmt.Errorf("it has %d marks $(KEY), must be from 1 to %d", marks, MaxMarks)
	}
	places, err := t.format.places(body.String(), sample)
	if err != nil {
		return err
	}
	if places != marks || foreign > 0 {
		return errors.New("each mark must stand where text stands: inside a string of JSON, in the text or an attribute of XML, in a value of a form")
	}
	return nil
}

// Keys returns the marks' keys, sorted and each once.
func (t *Template) Keys() []string {
	var keys []string
	for _, p := range t.parts {
		if p.key != "" {
			keys = append(keys, p.key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Fill returns the body with the values of the keys. Its error names the key, and holds no
// value.
func (t *Template) Fill(values map[string]string) ([]byte, error) {
	var body []byte
	for _, p := range t.parts {
		body = append(body, p.text...)
		if p.key == "" {
			continue
		}
		escaped, err := t.format.escape(values[p.key])
		if err != nil {
			return nil, fmt.Errorf("key %q %w", p.key, err)
		}
		if body = append(body, escaped...); len(body) > MaxFilledBytes {
			return nil, fmt.Errorf("the filled body has more than %d bytes", MaxFilledBytes)
		}
	}
	return body, nil
}
