package meter

import "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"

// FrameBytes is what a call of each function of the module counts as.
func FrameBytes(wasm []byte, options Options) (sizes []uint64, err error) {
	module, err := wasmbin.Parse(wasm)
	if err != nil {
		return nil, err
	}
	m := newRewriter(module, options)
	for i := range module.Bodies {
		if err := m.body.write(uint32(i)); err != nil {
			return nil, err
		}
		sizes = append(sizes, m.body.frameBytes())
	}
	return sizes, nil
}
