package deploy_test

import (
	"testing"
)

func testManager(t *testing.T, c cluster) {}
