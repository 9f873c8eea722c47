package loadbalancer

import (
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// values reads the annotations of one Service. The first that cannot be used
// is kept in err; what only falls back to its default is in warnings.
type values struct {
	of       map[string]string
	warnings []string
	err      error
}

// maxValueBytes bounds an annotation that names something.
const maxValueBytes = 1024

// text returns the annotation, also when it is empty: so a Service undoes a
// default of cloud.conf.
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

// flag knows true and false and nothing else, as cloud-provider-openstack.
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

// number falls back to its default when there is no number, and refuses one
// that Octavia would refuse.
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
