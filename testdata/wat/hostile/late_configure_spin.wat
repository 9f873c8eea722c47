;; Serves until an op makes it trap; from then on no new instance returns from configure. The
;; ops must fail; another provider takes over at once.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (import "ccm_v1" "result_read" (func $result_read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\0a\01k")
  (data (i32.const 80) "\0a\01k\12\05\10\7f\0a\01v")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (drop (call $cache (i32.const 80) (i32.const 10))) (unreachable))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
     (if (i32.eq (local.get $op) (i32.const 2)) (then
       (drop (call $cache (i32.const 64) (i32.const 3)))
       (drop (call $result_read (i32.const 0) (i32.const 96) (i32.const 2)))
       (if (i32.load8_u (i32.const 96)) (then (loop $l (br $l))))))
     (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
     (call $attack (local.get $op))))
