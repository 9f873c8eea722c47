package sdktest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// answersDir is an environment variable with a directory. Tests write the
// providers' answers there, a line "OP HEX TEST" for each, for a test of
// whether the manager accepts them.
const answersDir = "SDKTEST_ANSWERS"

// Answered records the answer of a provider whose method was called directly,
// as Call does for its own.
func (h *Host) Answered(op abi.Op, response abi.Message) {
	h.t.Helper()
	if os.Getenv(answersDir) != "" {
		h.record(op, h.encode(response))
	}
}

func (h *Host) record(op abi.Op, answer []byte) {
	h.t.Helper()
	dir := os.Getenv(answersDir)
	if dir == "" {
		return
	}
	file, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.answers", os.Getpid())), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(file, "%s %x %s\n", op, answer, h.t.Name()); err != nil {
		h.t.Error(err)
	}
	if err := file.Close(); err != nil {
		h.t.Error(err)
	}
}
