package conformance

import (
	"fmt"
	"reflect"
	"strings"
)

// inWords is a message as JSON for people: with the names of its fields,
// without empty ones, and with names in place of the numbers of enumerations.
func inWords(message any) any { return wordsOf(reflect.ValueOf(message)) }

func wordsOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Pointer, reflect.Interface:
		return wordsOf(v.Elem())
	case reflect.Int32:
		if name, ok := v.Interface().(fmt.Stringer); ok {
			return name.String()
		}
	case reflect.Struct:
		return fieldsOf(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		all := make([]any, v.Len())
		for i := range all {
			all[i] = wordsOf(v.Index(i))
		}
		return all
	}
	return v.Interface()
}

func fieldsOf(v reflect.Value) map[string]any {
	fields := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && name != "" && !v.Field(i).IsZero() {
			fields[name] = wordsOf(v.Field(i))
		}
	}
	return fields
}
