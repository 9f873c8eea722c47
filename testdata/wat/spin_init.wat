;; A guest whose _initialize never ends.
(module
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize") (loop $l (br $l)))
  (func (export "ccm_call") (param i32 i32) (result i32) (i32.const 5)))
