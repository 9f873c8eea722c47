//go:build node

package node_test

import (
	"fmt"
	"os"
	"testing"
)

// The test binary has three parts, told apart by its environment.
const (
	roleTest    = "WASM_CCM_NODE_TEST"    // in namespaces of its own: runs the tests
	roleMachine = "WASM_CCM_NODE_MACHINE" // the machine of this name: holds its namespaces
)

func TestMain(m *testing.M) {
	var code int
	var err error
	switch {
	case os.Getenv(roleMachine) != "":
		err = hold(os.Getenv(roleMachine))
	case os.Getenv(roleTest) != "":
		if err = furnish(); err == nil {
			code = m.Run()
		}
	default:
		code, err = isolate()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "make test-node: %v\n", err)
		code = 1
	}
	os.Exit(code)
}
