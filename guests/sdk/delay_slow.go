//go:build slow

package sdk

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// slowDelay is what each op takes longer with the build tag slow. It stands in
// for a cloud that takes its time, in tests of hosts (make test-slow).
const slowDelay = 3 * time.Second

func delay(number abi.Op) {
	if number.Group() != abi.GroupLoading { // these ask no cloud for anything
		time.Sleep(slowDelay)
	}
}
