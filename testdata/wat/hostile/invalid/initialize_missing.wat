;; Does not export _initialize. Must be refused.
(module
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "ccm_call") (param i32 i32) (result i32) (i32.const 0)))
