module github.com/wasm-ccm/wasm-ccm/abi

go 1.25.0

require github.com/aperturerobotics/protobuf-go-lite v0.14.0
