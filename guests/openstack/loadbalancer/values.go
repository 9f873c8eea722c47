package loadbalancer

import (
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// values reads the annotations of one Service. The first unusable one is kept
// in err; those that fall back to a default are in warnings.
type values struct {
	of       map[string]string
	warnings []string
	err      error
}

// maxValueBytes bounds an annotation with a name.
const maxValueBytes = 1024

// text returns the annotation even if empty: a Service can undo a default of
// cloud.conf.
func (v *values) text(name, def string) string {
	value, found := v.of[name]
	if !found {
		return def
	}
	if len(value) > maxValueBytes {
		v.fail(name, "is longer than "+strconv.Itoa(maxValueBytes)+" bytes")
		return ""
	}
	return strings.TrimSpace(value)
}

// flag knows only true and false, as cloud-provider-openstack does.
func (v *values) flag(name string, def bool) bool {
	value, found := v.of[name]
	switch {
	case !found:
		return def
	case value == "true":
		return true
	case value == "false":
		return false
	}
	v.warn(name, value, strconv.FormatBool(def))
	return def
}

// number falls back to its default for a text that is no number, and refuses a
// number that Octavia would refuse.
func (v *values) number(name string, def int64) int64 {
	value, found := v.of[name]
	if !found {
		return def
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		v.warn(name, value, strconv.FormatInt(def, 10))
		return def
	}
	for _, a := range trafficAnnotations() {
		if a.Name == name && (n < a.Low || n > a.High) {
			v.fail(name, "is "+value+", not a number of "+strconv.FormatInt(a.Low, 10)+" to "+strconv.FormatInt(a.High, 10))
		}
	}
	return n
}

func (v *values) warn(name, value, def string) {
	v.warnings = append(v.warnings, "annotation "+name+": "+strconv.Quote(value[:min(len(value), 40)])+" cannot be used; it is taken for "+def)
}

func (v *values) fail(name, what string) {
	if v.err == nil {
		v.err = sdk.Invalidf("the annotation %s %s", name, what)
	}
}

// labels reads "key=value, key, key=".
func labels(list string) map[string]string {
	wanted := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		key, value, assigned := strings.Cut(strings.TrimSpace(item), "=")
		if key != "" || assigned {
			wanted[key] = value
		}
	}
	return wanted
}
