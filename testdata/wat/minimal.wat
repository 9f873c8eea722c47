;; The least that passes for a provider of ABI v1, before its manifest is
;; appended. It uses one capability.
(module
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func (export "ccm_call") (param i32 i32) (result i32)
    (drop (call $cache (i32.const 0) (i32.const 0)))
    (i32.const 5)))
