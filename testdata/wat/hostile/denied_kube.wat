;; Uses the capability kube. Without a grant it must not load; where there is nothing behind
;; it, it must be told so.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "kube" (func $kube (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\08\01")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (if (i32.ne (i32.wrap_i64 (i64.shr_u (call $kube (i32.const 64) (i32.const 2)) (i64.const 32))) (i32.const 10)) (then (unreachable)))
    (call $yes))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
