;; Writes to its standard output and never ends the line as fast as it can. Must end at the
;; deadline; the host keeps and logs only what the rate allows.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32) (local $at i32)
    ;; 1,024 iovecs of 64 bytes each
    (local.set $at (i32.const 1024))
    (loop $l
      (i32.store (local.get $at) (i32.const 64))
      (i32.store offset=4 (local.get $at) (i32.const 64))
      (br_if $l (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 9216))))
    (loop $l (drop (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1024) (i32.const 16))) (br $l)) (unreachable))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
