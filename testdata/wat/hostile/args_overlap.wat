;; Reads the result of a host call over its request, and answers with memory that it writes to
;; at once. The host must have copies.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (import "ccm_v1" "result_read" (func $result_read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\0a\01k\12\05\10\7f\0a\01v")
  (data (i32.const 80) "\0a\01k")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (if (i32.ne (i32.wrap_i64 (i64.shr_u (call $cache (i32.const 64) (i32.const 10)) (i64.const 32))) (i32.const 0)) (then (unreachable)))
    (if (i32.ne (i32.wrap_i64 (i64.shr_u (call $cache (i32.const 80) (i32.const 3)) (i64.const 32))) (i32.const 0)) (then (unreachable)))
    (drop (call $result_read (i32.const 0) (i32.const 80) (i32.const 64)))
    (if (i32.ne (i32.load (i32.const 80)) (i32.const 0x01120108)) (then (unreachable))) ;; found, and a value of one byte
    (call $resp_write (i32.const 15) (i32.const 2))
    (i32.store8 (i32.const 16) (i32.const 2)) ;; "does not exist", too late
    (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (i32.store8 (i32.const 16) (i32.const 1)) (memory.fill (i32.const 80) (i32.const 0) (i32.const 64)) (i32.store (i32.const 80) (i32.const 0x6b010a))
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
