// Package peak measures how much memory a process takes at most while it reads
// hostile input.
package peak

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// environment tells a child what it reads.
const environment = "PEAK_READS"

// Case is a reader of foreign bytes.
type Case struct {
	Name string
	// Read reads its input, hostile or of the same kind and harmless, and fails the
	// test unless it is refused or taken as it should be. It makes the input in little memory.
	Read func(t *testing.T, hostile bool)
	// Most is how many MiB the process may take with the hostile input beside what
	// it takes with the harmless one.
	Most int
}

// Test reads the input of each case in a process of its own, which is the test
// binary again: its top-level test must call Test with the same cases.
func Test(t *testing.T, cases []Case) {
	t.Helper()
	if reads := os.Getenv(environment); reads != "" {
		child(t, cases, reads)
		return
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			harmless, hostile := measure(t, c.Name+" harmless"), measure(t, c.Name+" hostile")
			t.Logf("at most %d MiB with harmless input, %d MiB with hostile input", harmless, hostile)
			if hostile > harmless+c.Most*slack {
				t.Errorf("hostile input takes %d MiB, harmless input %d MiB: more than %d MiB beside it", hostile, harmless, c.Most*slack)
			}
		})
	}
}

func child(t *testing.T, cases []Case, reads string) {
	t.Helper()
	for _, c := range cases {
		hostile := reads == c.Name+" hostile"
		if !hostile && reads != c.Name+" harmless" {
			continue
		}
		c.Read(t, hostile)
		kibibytes, err := highWater()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("peak %d KiB\n", kibibytes)
		return
	}
	t.Fatalf("there is no case %q", reads)
}

// highWater is the largest resident size that this process has had, in KiB. That
// of getrusage is its parent's, too.
func highWater() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	peak := regexp.MustCompile(`(?m)^VmHWM:\s+([0-9]+) kB$`).FindSubmatch(status)
	if peak == nil {
		return 0, errors.New("the kernel does not say VmHWM")
	}
	return strconv.Atoi(string(peak[1]))
}

// measure returns the peak of a child, in MiB.
func measure(t *testing.T, reads string) int {
	t.Helper()
	root := regexp.MustCompile(`^[^/]*`).FindString(t.Name())
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+root+"$", "-test.count=1", "-test.timeout=2m")
	child.Env = append(os.Environ(), environment+"="+reads)
	out, err := child.CombinedOutput()
	said := regexp.MustCompile(`(?m)^peak ([0-9]+) KiB$`).FindSubmatch(out)
	if err != nil || said == nil {
		t.Fatalf("%s: %v\n%s", reads, err, out)
	}
	kibibytes, err := strconv.Atoi(string(said[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes >> 10
}
