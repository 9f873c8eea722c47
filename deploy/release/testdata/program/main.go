// Command program is a small one that is made of another module, for the tests
// of what a release says of its programs. It prints its arguments.
package main

import (
	"fmt"
	"os"

	"golang.org/x/exp/constraints"
)

func least[T constraints.Ordered](a, b T) T { return min(a, b) }

func main() { fmt.Println("#", os.Args[least(1, 2):]) }
