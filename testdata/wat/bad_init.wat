;; A guest that reads a request in _initialize, where there is none: it cannot
;; be instantiated.
(module
  (import "ccm_v1" "req_read" (func $req_read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize") (drop (call $req_read (i32.const 0) (i32.const 0) (i32.const 1))))
  (func (export "ccm_call") (param i32 i32) (result i32) (i32.const 5)))
