;; Has 2000 requests refused as fast as it can. Must be told soon that there
;; were too many of them; traps otherwise.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "http_send" (func $host (param i32 i32) (result i64)))
  (import "ccm_v1" "result_read" (func $result_read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 256) "\0a\1c\0a\03GET\12\15http://other.example/")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32) (local $i i32)
    (loop $next
      (drop (call $host (i32.const 256) (i32.const 30)))
      (drop (call $result_read (i32.const 0) (i32.const 8192) (i32.const 8192)))
      ;; results: 0a, its length of one byte or two, then the code, 10 and 8 for throttled
      (if (i32.or (i32.eq (i32.load16_u (i32.const 8194)) (i32.const 0x0810)) (i32.eq (i32.load16_u (i32.const 8195)) (i32.const 0x0810)))
        (then (return (call $yes))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2000))))
    (unreachable))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
