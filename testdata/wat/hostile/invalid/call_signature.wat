;; Its ccm_call returns nothing. Must be refused.
(module
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func (export "ccm_call") (param i32 i32)))
