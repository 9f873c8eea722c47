;; Exports a global as ccm_call. Must be refused.
(module
  (memory (export "memory") 1)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (global (export "ccm_call") i32 (i32.const 0)))
