//go:build upstream

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
)

// searchGuests looks for the secrets in the memory of the guest's instances.
func (u *upstreamRig) searchGuests(t *testing.T, m *manager, module []byte) {
	t.Helper()
	searchInstances(t, m, module, guestMemory, awsSecret, checkMemory)
}

// searchInstances looks into the memory of each instance of a guest, so many
// bytes of it. It is found in that of the manager, which has the secret, by what
// the module puts there, at its places.
func searchInstances(t *testing.T, m *manager, module []byte, size int, secret string, look func(t *testing.T, memory []byte) (configured bool)) {
	t.Helper()
	marks := landmarks(t, module)
	found, pieces, held, configured := 0, 0, false, false
	for _, region := range regions(t, m.cmd.Process.Pid) {
		data := readMemory(t, m.cmd.Process.Pid, region)
		held = held || bytes.Contains(data, []byte(secret))
		for at := 0; ; at++ {
			i := bytes.Index(data[at:], marks[0].data)
			if i < 0 {
				break
			}
			at += i
			pieces++
			base := at - marks[0].offset
			if base < 0 || !placed(data[base:], marks) {
				continue // of the module's bytes, not of an instance
			}
			found++
			configured = look(t, data[base:min(len(data), base+size)]) || configured
		}
	}
	if found == 0 || !configured {
		t.Errorf("%d instances were found in the manager's memory, one with its configuration: %t", found, configured)
	}
	if !held {
		t.Error("the manager does not have the secret either: the search is wrong")
	}
	t.Logf("%d instances searched, of %d places with a piece of the module", found, pieces)
}

// guestMemory is what an instance has at least when it has served: the Go
// runtime's arenas are behind the module's data.
const guestMemory = 64 << 20

// checkMemory reports whether the instance has what its configuration says; one
// that was only described has not.
func checkMemory(t *testing.T, memory []byte) (configured bool) {
	t.Helper()
	for _, secret := range []string{awsKeyID, awsSecret, awsSession} {
		for _, text := range encodings(secret) {
			if i := bytes.Index(memory, text); i >= 0 {
				t.Errorf("an instance has a secret at %#x: %q", i, memory[max(0, i-64):i+64])
			}
		}
	}
	return bytes.Contains(memory, []byte("host-signs-again"))
}

type landmark struct {
	offset int
	data   []byte
}

// landmarks are long pieces of what a module puts into its memory.
func landmarks(t *testing.T, module []byte) (marks []landmark) {
	t.Helper()
	var long []landmark
	for at := 8; at < len(module); {
		id := module[at]
		size, n := binary.Uvarint(module[at+1:])
		body := module[at+1+n:][:size]
		at += 1 + n + int(size)
		if id != 11 {
			continue
		}
		count, n := binary.Uvarint(body)
		body = body[n:]
		for range count {
			var segment landmark
			segment, body = readSegment(t, body)
			if len(segment.data) >= 256 {
				long = append(long, landmark{segment.offset, segment.data[:256]})
			}
		}
	}
	if len(long) < 16 {
		t.Fatalf("the module has %d long data segments", len(long))
	}
	for i := range 16 {
		marks = append(marks, long[i*len(long)/16])
	}
	return marks
}

// placed reports whether the pieces are where a module puts them. Some are of
// variables, which have changed.
func placed(memory []byte, marks []landmark) bool {
	n := 0
	for _, mark := range marks {
		if end := mark.offset + len(mark.data); end <= len(memory) && bytes.Equal(memory[mark.offset:end], mark.data) {
			n++
		}
	}
	return n >= len(marks)/4
}

// readSegment reads an active segment of memory 0.
func readSegment(t *testing.T, body []byte) (landmark, []byte) {
	t.Helper()
	if body[0] != 0 || body[1] != 0x41 {
		t.Fatalf("a segment that begins with % x", body[:2])
	}
	offset, n := signed(body[2:])
	body = body[2+n+1:]
	size, n := binary.Uvarint(body)
	return landmark{offset, body[n:][:size]}, body[n+int(size):]
}

// signed is LEB128.
func signed(data []byte) (value, n int) {
	for shift := 0; ; shift += 7 {
		b := data[n]
		n++
		value |= int(b&0x7f) << shift
		if b < 0x80 {
			if b&0x40 != 0 {
				value |= -1 << (shift + 7)
			}
			return value, n
		}
	}
}

type span struct{ from, to int64 }

// regions are those that a process can write to, adjacent ones as one.
func regions(t *testing.T, pid int) (all []span) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		var s span
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &s.from, &s.to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue
		}
		if n := len(all); n > 0 && all[n-1].to == s.from {
			all[n-1].to = s.to
			continue
		}
		all = append(all, s)
	}
	return all
}

// readMemory reads a region; what cannot be read stays zero: parts may be gone
// by now.
func readMemory(t *testing.T, pid int, s span) []byte {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, s.to-s.from)
	const piece = 1 << 16
	for at := 0; at < len(data); at += piece {
		_, _ = f.ReadAt(data[at:min(len(data), at+piece)], s.from+int64(at)) // see above
	}
	return data
}
