package manager

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// A recorded answer under a withdrawn grant is dropped at once: a candidate
// would get it in its comparison.
func TestTheRecordGoesWithAGrant(t *testing.T) {
	inWalk(t, func(w *walk) {
		recorder := w.leader.find("one").recorder
		recorder.Reset()
		for n := range 5 {
			_, end := recorder.Begin(t.Context(), abi.OpInstanceExists, encode(requests.Instance(fmt.Sprint("recorded-", n))))
			end(abi.CodeOK, encode(&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}), nil)
		}
		w.reload(strings.Replace(w.text(), "observePeriod: 30s", "observePeriod: 31s", 1))
		synctest.Wait()
		if got := len(recorder.Samples()); got < 5 {
			w.t.Errorf("%d samples are left of 5 after another change", got)
		}
		w.reload(strings.Replace(w.text(), "pathPrefix: /one/", "pathPrefix: /nothing/", 1))
		synctest.Wait()
		if got := len(recorder.Samples()); got >= 5 {
			w.t.Errorf("%d samples are left after the grant was withdrawn", got)
		}
	})
}
