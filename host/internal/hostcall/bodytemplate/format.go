package bodytemplate

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"
)

func escapeXML(value string) (string, error) {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !inXML(r) }) {
		return "", errors.New("has a character that XML does not have")
	}
	var out strings.Builder
	err := xml.EscapeText(&out, []byte(value))
	return out.String(), err
}

// inXML reports whether XML 1.0 allows the character (section 2.2).
func inXML(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r != 0xFFFE && r != 0xFFFF
}

// placesInXML counts samples in text and attributes. Names, comments, instructions and CDATA
// do not count: nothing is escaped there.
func placesInXML(body, sample string) (count int, err error) {
	if strings.Contains(body, "<![CDATA[") || strings.Contains(body, "<!DOCTYPE") {
		return 0, errors.New("it has CDATA or a DOCTYPE, in which values are not escaped in the same way")
	}
	for d := xml.NewDecoder(strings.NewReader(body)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return 0, errors.New("it is not well-formed XML in UTF-8")
		}
		switch token := token.(type) {
		case xml.CharData:
			count += strings.Count(string(token), sample)
		case xml.StartElement:
			for _, a := range token.Attr {
				// The value of a namespace declaration is a name, too.
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					count += strings.Count(a.Value, sample)
				}
			}
		}
	}
}

func escapeJSON(value string) (string, error) {
	if !utf8.ValidString(value) {
		return "", errors.New("is not UTF-8")
	}
	out, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("cannot be written as JSON: %T", err)
	}
	return string(out[1 : len(out)-1]), nil
}

// placesInJSON counts samples in string values. Names do not count.
func placesInJSON(body, sample string) (int, error) {
	if !json.Valid([]byte(body)) {
		return 0, errors.New("it is not valid JSON; a mark stands between quotes")
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return 0, errors.New("it is not valid JSON")
	}
	return countJSON(v, sample), nil
}

func countJSON(v any, sample string) (count int) {
	switch v := v.(type) {
	case string:
		return strings.Count(v, sample)
	case []any:
		for _, element := range v {
			count += countJSON(element, sample)
		}
	case map[string]any:
		for _, element := range v {
			count += countJSON(element, sample)
		}
	}
	return count
}

func escapeForm(value string) (string, error) { return url.QueryEscape(value), nil }

// placesInForm counts samples in values. Names do not count.
func placesInForm(body, sample string) (count int, err error) {
	if strings.ContainsFunc(body, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return 0, errors.New("a form has no spaces, line breaks or other than ASCII: write %20, %0A and the like")
	}
	pairs, err := url.ParseQuery(body)
	if err != nil {
		return 0, errors.New("it is not a form")
	}
	for _, values := range pairs {
		for _, value := range values {
			count += strings.Count(value, sample)
		}
	}
	return count, nil
}
