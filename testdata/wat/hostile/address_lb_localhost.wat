;; Its load balancer has an address, and is called localhost beside.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\0a\18\0a\16\0a\09192.0.2.1\12\09localhost")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (call $resp_write (i32.const 64) (i32.const 26)) (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
