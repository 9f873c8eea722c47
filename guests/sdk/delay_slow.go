//go:build slow

package sdk

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// slowDelay is the additional duration of each op with the build tag slow. It
// simulates a slow cloud, in tests of hosts (make test-slow).
const slowDelay = 3 * time.Second

func delay(number abi.Op) {
	if number.Group() != abi.GroupLoading { // these send no request to a cloud
		time.Sleep(slowDelay)
	}
}
