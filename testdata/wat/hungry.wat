;; Takes as much memory in configure as it can get, and then says yes.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (local $page i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (loop $more
      (local.set $page (memory.grow (i32.const 256)))
      (if (i32.ne (local.get $page) (i32.const -1)) (then
        (memory.fill (i32.shl (local.get $page) (i32.const 16)) (i32.const 7) (i32.const 0x1000000))
        (br $more))))
    (call $yes)))
