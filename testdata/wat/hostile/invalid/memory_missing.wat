;; Does not export its memory. Must be refused.
(module
  (memory 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func (export "ccm_call") (param i32 i32) (result i32) (i32.const 0)))
