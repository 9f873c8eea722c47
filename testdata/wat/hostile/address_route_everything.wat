;; Its routes lead everything to a Node, and what no pods have.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (data (i32.const 64) "\0a\19\0a\02r0\12\06node-1*\0b10.0.0.0/24\0a\17\0a\02r1\12\06node-1*\090.0.0.0/0\0a\12\0a\02r2\12\06node-1*\04::/0\0a\19\0a\02r3\12\06node-1*\0b127.0.0.0/8\0a \0a\02r4\12\06node-1*\12169.254.169.254/32\0a\19\0a\02r5\12\06node-1*\0b224.0.0.0/4\10\01")
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (call $resp_write (i32.const 64) (i32.const 162)) (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
