//go:build !nosnapshot

package sdk

// ccmResume declares that instances may begin as copies of a configured one,
// and is called in each copy. The build tag nosnapshot leaves it out: every
// instance is then initialised and configured by itself.
//
//go:wasmexport ccm_resume
func ccmResume() {
	for _, f := range module.resumed {
		f()
	}
}
