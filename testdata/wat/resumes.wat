;; testdata/wat/provider.wat in short, of which instances may begin as snapshots.
;; ccm_resume traps where configure got a configuration of 7 bytes and more.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test") ;; DescribeResponse
  (data (i32.const 32) "\08\01")                     ;; the first field is true, or 1
  (global $configured (mut i32) (i32.const 0))
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func (export "ccm_resume")
    (if (i32.ge_u (global.get $configured) (i32.const 7)) (then (unreachable))))
  (func $answer (param $ptr i32) (param $len i32) (result i32)
    (call $resp_write (local.get $ptr) (local.get $len))
    (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (return (call $answer (i32.const 0) (i32.const 15)))))
    (if (i32.eq (local.get $op) (i32.const 2)) (then (global.set $configured (local.get $n))))
    (call $answer (i32.const 32) (i32.const 2))))
