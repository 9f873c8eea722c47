;; Fills the cache with values of a megabyte, each under a new key. Must end at the deadline;
;; the cache keeps 16 MiB.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (memory (export "memory") 17)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\0a\04kkkk\12\c6\84=\10\7f\0a\c0\84=")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32) (local $n i32)
    (loop $l
      (i32.store (i32.const 66) (i32.add (i32.const 0x61616161)
        (i32.or (i32.or (i32.and (local.get $n) (i32.const 15)) (i32.shl (i32.and (local.get $n) (i32.const 0xf0)) (i32.const 4)))
                (i32.or (i32.shl (i32.and (local.get $n) (i32.const 0xf00)) (i32.const 8)) (i32.shl (i32.and (local.get $n) (i32.const 0xf000)) (i32.const 12))))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (if (i32.ne (i32.wrap_i64 (i64.shr_u (call $cache (i32.const 64) (i32.const 1000016)) (i64.const 32))) (i32.const 0)) (then (unreachable)))
      (br $l)) (unreachable))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
