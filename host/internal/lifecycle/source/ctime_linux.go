package source

import (
	"os"
	"syscall"
	"time"
)

// changeTime is when the kernel last saw the file change. Unlike the time of
// modification no archive brings it along, and nobody can set it.
func changeTime(info os.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}
