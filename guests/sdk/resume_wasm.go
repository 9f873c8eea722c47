//go:build !nosnapshot

package sdk

// ccmResume says that instances may begin as copies of a configured one, and is
// called in each that does. With the build tag nosnapshot it is not there, and
// every instance is initialised and configured by itself.
//
//go:wasmexport ccm_resume
func ccmResume() {
	for _, f := range module.resumed {
		f()
	}
}
