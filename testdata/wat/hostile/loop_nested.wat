;; Eight loops in each other, each of 4 billion turns. Must end at the deadline.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32) (local $0 i32) (local $1 i32) (local $2 i32) (local $3 i32) (local $4 i32) (local $5 i32) (local $6 i32) (local $7 i32)
    (local.set $0 (i32.const 0)) (loop $0
     (local.set $1 (i32.const 0)) (loop $1
      (local.set $2 (i32.const 0)) (loop $2
       (local.set $3 (i32.const 0)) (loop $3
        (local.set $4 (i32.const 0)) (loop $4
         (local.set $5 (i32.const 0)) (loop $5
          (local.set $6 (i32.const 0)) (loop $6
           (local.set $7 (i32.const 0)) (loop $7
    (br_if $7 (local.tee $7 (i32.sub (local.get $7) (i32.const 1)))))
    (br_if $6 (local.tee $6 (i32.sub (local.get $6) (i32.const 1)))))
    (br_if $5 (local.tee $5 (i32.sub (local.get $5) (i32.const 1)))))
    (br_if $4 (local.tee $4 (i32.sub (local.get $4) (i32.const 1)))))
    (br_if $3 (local.tee $3 (i32.sub (local.get $3) (i32.const 1)))))
    (br_if $2 (local.tee $2 (i32.sub (local.get $2) (i32.const 1)))))
    (br_if $1 (local.tee $1 (i32.sub (local.get $1) (i32.const 1)))))
    (br_if $0 (local.tee $0 (i32.sub (local.get $0) (i32.const 1)))))
    (call $yes))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
