;; A guest that asks for the time that is left, in _initialize: there is no op,
;; so it cannot be instantiated.
(module
  (import "ccm_v1" "deadline" (func $deadline (result i64)))
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize") (drop (call $deadline)))
  (func (export "ccm_call") (param i32 i32) (result i32) (i32.const 5)))
