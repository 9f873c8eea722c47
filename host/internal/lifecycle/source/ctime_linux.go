package source

import (
	"os"
	"syscall"
	"time"
)

// changeTime is the kernel's time of the file's last change. Unlike the modification time,
// archives do not restore it, and nobody can set it.
func changeTime(info os.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}
