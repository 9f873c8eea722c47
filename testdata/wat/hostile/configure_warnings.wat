;; Gives 100,000 warnings in configure. Must be refused: they take more memory than bytes.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 4)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (func $fill (local $at i32)
    (i32.store16 (i32.const 1022) (i32.const 0x0108))
    (local.set $at (i32.const 1024))
    (loop $f
      (i32.store16 (local.get $at) (i32.const 0x0022))
      (br_if $f (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 2))) (i32.const 201024)))))
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
     (if (i32.ge_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
     (call $fill)
     (call $resp_write (i32.const 1022) (i32.const 200002)) (i32.const 0)))
