// Command stockgo is a stock Go guest that uses what its runtime needs of WASI: sleep, random
// numbers, the clock, arguments, standard output.
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"
	"unsafe"
)

//go:wasmimport ccm_v1 resp_write
func respWrite(ptr unsafe.Pointer, length uint32)

//go:wasmexport ccm_abi_v1
func marker() {}

//go:wasmexport ccm_call
func call(_, _ uint32) uint32 {
	begin := time.Now()
	done := make(chan string)
	go func() {
		time.Sleep(2 * time.Millisecond)
		done <- rand.Text()
	}()
	fmt.Println("args", len(os.Args), "random", len(<-done) > 0)
	_, err := os.ReadFile("/etc/passwd")
	answer := []byte(fmt.Sprintf("slept %v, environment %d, file %v", time.Since(begin) >= 2*time.Millisecond, len(os.Environ()), err == nil))
	respWrite(unsafe.Pointer(&answer[0]), uint32(len(answer)))
	return 0
}

func main() {}
