module github.com/wasm-ccm/wasm-ccm/testdata/cpo

go 1.25.0

require (
	github.com/wasm-ccm/wasm-ccm/guests v0.0.0-00010101000000-000000000000
	gopkg.in/gcfg.v1 v1.2.3
	k8s.io/cloud-provider-openstack v1.31.2
)

require gopkg.in/warnings.v0 v0.1.2 // indirect

replace (
	github.com/wasm-ccm/wasm-ccm/abi => ../../abi
	github.com/wasm-ccm/wasm-ccm/guests => ../../guests
)
