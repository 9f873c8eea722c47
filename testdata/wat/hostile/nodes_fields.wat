;; Asks for 60,000 fields of its nodes. Must be told that it is too large.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "nodes" (func $nodes (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (memory.fill (i32.const 64) (i32.const 1) (i32.const 60006)) (i32.store (i32.const 66) (i32.const 0x03d4e022))
    (i32.store16 (i32.const 64) (i32.const 0x0108))
    (if (i32.ne (i32.wrap_i64 (i64.shr_u (call $nodes (i32.const 64) (i32.const 60006)) (i64.const 32))) (i32.const 12)) (then (unreachable)))
    (call $yes))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
