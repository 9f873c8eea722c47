package provenance

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"

	"sigs.k8s.io/json"
)

// Errors of JSON that two readers may understand differently.
var (
	errTwice = errors.New("a key stands twice in one of its objects: sign a document that every tool reads in the same way")
	errCase  = errors.New("a key of it is written in another case than its field: sign a document that every tool reads in the same way")
)

// ReadJSON reads JSON that is signed, or that decides. Of duplicate keys encoding/json takes
// the last, and it ignores the case of keys; the signer, or another tool, may see another
// document. So both are refused, anywhere in the document. Into points to the zero value of
// a struct.
func ReadJSON(data []byte, into any) error {
	// Invariant I11 (host/SECURITY.md): a signed document has one reading.
	var whole any
	strict, err := json.UnmarshalStrict(data, &whole, json.DisallowDuplicateFields)
	switch {
	case err != nil:
		return err
	case len(strict) > 0 || !distinct(whole):
		return errTwice
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return err
	}
	folded := reflect.New(reflect.TypeOf(into).Elem()).Interface()
	if err := stdjson.Unmarshal(data, folded); err != nil || !reflect.DeepEqual(into, folded) {
		return errCase
	}
	return nil
}

// distinct reports whether no two keys of an object differ only in case.
func distinct(value any) bool {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if !distinct(element) {
				return false
			}
		}
	case map[string]any:
		seen := make(map[string]bool, len(value))
		for key, element := range value {
			// encoding/json folds K (Kelvin) and ſ, too.
			folded := strings.ToLower(strings.ToUpper(key))
			if seen[folded] || !distinct(element) {
				return false
			}
			seen[folded] = true
		}
	}
	return true
}
