;; A provider named test, version 1, before its manifest is appended: it
;; describes itself, takes every configuration and is ready. Then
;;   instance_exists    answers that it exists
;;   instance_shutdown  traps
;;   instance_metadata  never ends
;;   volume_labels      answers with what does not decode
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test") ;; DescribeResponse
  (data (i32.const 32) "\08\01")                     ;; the first field is true, or 1
  (data (i32.const 48) "\0a\ff")                     ;; a truncated field
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))

  (func $answer (param $ptr i32) (param $len i32) (result i32)
    (call $resp_write (local.get $ptr) (local.get $len))
    (i32.const 0))

  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (return (call $answer (i32.const 0) (i32.const 15)))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $answer (i32.const 32) (i32.const 2)))))
    (if (i32.eq (local.get $op) (i32.const 10)) (then (return (call $answer (i32.const 32) (i32.const 2)))))
    (if (i32.eq (local.get $op) (i32.const 11)) (then (unreachable)))
    (if (i32.eq (local.get $op) (i32.const 12)) (then (loop $l (br $l))))
    (if (i32.eq (local.get $op) (i32.const 40)) (then (return (call $answer (i32.const 48) (i32.const 2)))))
    (drop (call $cache (i32.const 0) (i32.const 0)))
    (i32.const 5)))
