;; Hands nodes a pointer and a length of which the sum overflows, 4 GiB, and what lies behind
;; the end of its memory, one in each op. Each must end the op.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "nodes" (func $nodes (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\0a\04test\12\011\1a\04test\08\01") ;; describe's answer, then yes
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))
  (func $yes (result i32) (call $resp_write (i32.const 15) (i32.const 2)) (i32.const 0))
  (func $attack (param $op i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 10)) (then (drop (call $nodes (i32.const -1) (i32.const 2)))))
    (if (i32.eq (local.get $op) (i32.const 11)) (then (drop (call $nodes (i32.const 0) (i32.const -1)))))
    (if (i32.eq (local.get $op) (i32.const 12)) (then (drop (call $nodes (i32.const 65536) (i32.const 1)))))
    (if (i32.eq (local.get $op) (i32.const 20)) (then (drop (call $nodes (i32.const 65537) (i32.const 0)))))
    (if (i32.eq (local.get $op) (i32.const 22)) (then (drop (call $nodes (i32.const 2147483648) (i32.const 2147483648)))))
    (if (i32.eq (local.get $op) (i32.const 23)) (then (drop (call $nodes (i32.const 65535) (i32.const 2)))))
    (if (i32.eq (local.get $op) (i32.const 24)) (then (drop (call $nodes (i32.const 2147483647) (i32.const 2147483647)))))
    (call $yes))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $resp_write (i32.const 0) (i32.const 15)) (return (i32.const 0))))
    (if (i32.le_u (local.get $op) (i32.const 3)) (then (return (call $yes))))
    (call $attack (local.get $op))))
