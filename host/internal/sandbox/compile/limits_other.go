//go:build !linux

package compile

import (
	"errors"
	"os"
	"syscall"
)

func limitProcess(Limits, uint64) error { return errors.New("compiling apart needs Linux") }

// Self is the file of the running program.
func Self() (string, error) { return os.Executable() }

func attributes() *syscall.SysProcAttr { return nil }

func killGroup(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func ownedBy(os.FileInfo) (uid uint32, known bool) { return 0, false }

func mountedReadOnly(string) bool { return false }
