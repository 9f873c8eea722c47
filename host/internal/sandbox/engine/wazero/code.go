package wazero

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"k8s.io/klog/v2"
)

// largeCode is the size from which on machine code is mapped from a file, in
// bytes. Below it the memory that is saved is not worth a file.
const largeCode = 4 << 20

// mapCode makes the machine code of a module pages of a file in the directory:
// the kernel reads those that run, and can take them back. The runtime has it in
// memory of its own, where it stays if files cannot be run or have no room. It is
// called before anything of the module runs, and while nobody else has its
// compiled form.
func mapCode(ctx context.Context, compiled wazero.CompiledModule, dir string) error {
	if dir == "" {
		return nil
	}
	for _, code := range machineCode(compiled) {
		if len(code) < largeCode {
			continue
		}
		if err := fromFile(ctx, code, dir); err != nil {
			return fmt.Errorf("mapping the machine code of the module: %w", err)
		}
	}
	return nil
}

func fromFile(ctx context.Context, code []byte, dir string) error {
	file, err := codeFile(code, dir)
	if err != nil {
		klog.FromContext(ctx).Info("Machine code stays in memory", "bytes", len(code), "dir", dir, "why", err)
		return nil
	}
	return errors.Join(replace(code, file), file.Close())
}

// machineCode finds the machine code that a runtime of one module has, its own
// and that of imports. The runtime shows it nowhere, so it is read from the
// fields of its types; with other fields there is none, and
// TestLargeCodeIsMapped fails.
func machineCode(compiled wazero.CompiledModule) (all [][]byte) {
	modules := follow(reflect.ValueOf(compiled), "compiledEngine", "compiledModules")
	if modules.Kind() != reflect.Map {
		return nil
	}
	for _, key := range modules.MapKeys() {
		code := follow(modules.MapIndex(key), "compiledModule", "executables", "executable")
		if code.Kind() == reflect.Slice && code.Type().Elem().Kind() == reflect.Uint8 && code.Len() > 0 {
			all = append(all, unsafe.Slice((*byte)(code.UnsafePointer()), code.Len()))
		}
	}
	return all
}

// follow goes from field to field, through pointers and interfaces.
func follow(v reflect.Value, fields ...string) reflect.Value {
	for _, field := range fields {
		if v = pointee(v); v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v = v.FieldByName(field)
	}
	return v
}

func pointee(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}
