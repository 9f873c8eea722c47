package provider

import (
	"reflect"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// TestAnswersWithMissingParts: a guest may leave out whatever it wants, at each
// depth of its answer. That is an error or an answer, but ends no manager.
func TestAnswersWithMissingParts(t *testing.T) {
	for op := range subjects {
		_, response := op.New()
		for i, m := range sparse(reflect.TypeOf(response).Elem()) {
			p := New(answer(t, m.Interface().(abi.Message)))
			if _, err := call(t.Context(), p, op); i == 0 && err == nil {
				t.Errorf("%s: the empty message is an answer", op)
			}
		}
	}
}

// sparse returns the empty message of a struct, one that has only its scalars, and
// for each message in it those with one such message and no other.
func sparse(t reflect.Type) []reflect.Value {
	all := []reflect.Value{reflect.New(t), scalars(t)}
	for i := range t.NumField() {
		field := t.Field(i).Type
		list := field.Kind() == reflect.Slice && field.Elem().Kind() == reflect.Pointer
		if list {
			field = field.Elem()
		}
		if field.Kind() != reflect.Pointer {
			continue
		}
		for _, part := range sparse(field.Elem()) {
			m := scalars(t)
			if list {
				part = reflect.Append(m.Elem().Field(i), part)
			}
			m.Elem().Field(i).Set(part)
			all = append(all, m)
		}
	}
	return all
}

// scalars returns a message with each text, number and flag set, and no message.
func scalars(t reflect.Type) reflect.Value {
	m := reflect.New(t)
	for i := range t.NumField() {
		switch f := m.Elem().Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.String:
			f.SetString("192.0.2.1")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(1)
		case f.CanUint():
			f.SetUint(1)
		}
	}
	return m
}
