module github.com/wasm-ccm/wasm-ccm/guests

go 1.25.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/wasm-ccm/wasm-ccm/abi v0.0.0-00010101000000-000000000000
	go.yaml.in/yaml/v3 v3.0.6
)

require github.com/aperturerobotics/protobuf-go-lite v0.14.0 // indirect

replace github.com/wasm-ccm/wasm-ccm/abi => ../abi
