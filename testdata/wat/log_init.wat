;; A guest that logs in _initialize, which is allowed. It answers each op with
;; not_implemented.
(module
  (import "ccm_v1" "log" (func $log (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "hello")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize") (drop (call $log (i32.const 0) (i32.const 5))))
  (func (export "ccm_call") (param i32 i32) (result i32) (i32.const 5)))
