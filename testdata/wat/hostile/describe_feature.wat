;; Uses a feature that the host does not have. Must not load.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\0a\04test\12\011\1a\04test\22\04root")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (call $resp_write (i32.const 64) (i32.const 21)) (i32.const 0)))
