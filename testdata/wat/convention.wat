;; A guest whose op number selects what it does with the calling convention.
;; host/internal/sandbox/engine/enginetest says what is expected of each.
(module
  (import "ccm_v1" "req_read" (func $req_read (param i32 i32 i32) (result i32)))
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "err_write" (func $err_write (param i32 i32)))
  (import "ccm_v1" "result_read" (func $result_read (param i32 i32 i32) (result i32)))
  (import "ccm_v1" "now" (func $now (result i64)))
  (import "ccm_v1" "deadline" (func $deadline (result i64)))
  (import "ccm_v1" "log" (func $log (param i32 i32) (result i64)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 65536) "standard output\n")
  (global $calls (mut i32) (i32.const 0))

  (func (export "ccm_abi_v1"))
  (func (export "_initialize")
    (drop (call $now)))

  ;; 1: answers with the request.
  (func $echo (param $n i32) (result i32)
    (local $got i32)
    (local.set $got (call $req_read (i32.const 0) (i32.const 0) (i32.const 65536)))
    (call $resp_write (i32.const 0) (local.get $got))
    (i32.const 0))
  ;; 2: traps.
  (func $trap (result i32) (unreachable))
  ;; 3: never ends.
  (func $spin (result i32) (loop $l (br $l)) (unreachable))
  ;; 4: answers twice.
  (func $twice (result i32)
    (call $resp_write (i32.const 0) (i32.const 1))
    (call $resp_write (i32.const 0) (i32.const 1))
    (i32.const 0))
  ;; 5: answers from outside of its memory; pointer and length overflow.
  (func $outside (result i32)
    (call $resp_write (i32.const 0xffffffff) (i32.const 2))
    (i32.const 0))
  ;; 6: reports success without an answer.
  (func $silent (result i32) (i32.const 0))
  ;; 7: fails with code 2 and a detail "a".
  (func $fail (result i32)
    (i32.store (i32.const 0) (i32.const 0x61010a))
    (call $err_write (i32.const 0) (i32.const 3))
    (i32.const 2))
  ;; 8: hands the request to a host call and answers with status, and result.
  (func $host_call (param $n i32) (result i32)
    (local $r i64) (local $got i32)
    (local.set $got (call $req_read (i32.const 0) (i32.const 0) (i32.const 65536)))
    (local.set $r (call $cache (i32.const 0) (local.get $got)))
    (i64.store (i32.const 0) (local.get $r))
    (drop (call $result_read (i32.const 0) (i32.const 8) (i32.const 4)))
    (drop (call $result_read (i32.const 4) (i32.const 12) (i32.const 65000)))
    (call $resp_write (i32.const 0) (i32.add (i32.const 8) (i32.wrap_i64 (local.get $r))))
    (i32.const 0))
  ;; 9: grows its memory as far as it can and answers with the pages.
  (func $grow (result i32)
    (loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    (i32.store (i32.const 0) (memory.size))
    (call $resp_write (i32.const 0) (i32.const 4))
    (i32.const 0))
  ;; 10: exits.
  (func $exit (result i32) (call $proc_exit (i32.const 3)) (unreachable))
  ;; 11: answers with how often it was called, and the time left.
  (func $count (result i32)
    (i32.store (i32.const 0) (global.get $calls))
    (i64.store (i32.const 4) (call $deadline))
    (call $resp_write (i32.const 0) (i32.const 12))
    (i32.const 0))
  ;; 12: a host call with a length beyond the limits.
  (func $large (result i32)
    (drop (call $cache (i32.const 0) (i32.const 0x7fffffff)))
    (i32.const 0))
  ;; 13: recurses until the stack is used up.
  (func $recurse (result i32) (i32.add (call $recurse) (i32.const 1)))
  ;; 14: writes to its standard output.
  (func $stdout (result i32)
    (i32.store (i32.const 0) (i32.const 65536))
    (i32.store (i32.const 4) (i32.const 16))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $resp_write (i32.const 0) (i32.const 0))
    (i32.const 0))
  ;; 15: reads a request and a result beyond their ends.
  (func $beyond (result i32)
    (i32.store (i32.const 0) (call $req_read (i32.const 0xffffffff) (i32.const 0) (i32.const 4)))
    (i32.store (i32.const 4) (call $result_read (i32.const 0) (i32.const 0) (i32.const 4)))
    (call $resp_write (i32.const 0) (i32.const 8))
    (i32.const 0))
  ;; 16: reads its request to an address outside of its memory.
  (func $read_outside (result i32)
    (call $req_read (i32.const 0) (i32.const 0x7ffffff0) (i32.const 65536)))
  ;; 17: hands over two errors.
  (func $two_errors (result i32)
    (call $err_write (i32.const 0) (i32.const 0))
    (call $err_write (i32.const 0) (i32.const 0))
    (i32.const 1))
  ;; 18: waits in host calls, again and again.
  (func $host_spin (result i32)
    (loop $l (drop (call $cache (i32.const 0) (i32.const 0))) (br $l)) (unreachable))

  ;; 19: calls that double at each of 60 levels, without a loop.
  (func $double (param $level i32)
    (if (i32.eqz (local.get $level)) (then (return)))
    (call $double (i32.sub (local.get $level) (i32.const 1)))
    (call $double (i32.sub (local.get $level) (i32.const 1))))
  (func $doubling (result i32) (call $double (i32.const 60)) (i32.const 0))
  ;; 20: offers more room for its request than it has.
  (func $room (result i32)
    (call $req_read (i32.const 65536) (i32.const 0x1fff0) (i32.const 32)))
  ;; 21: a host call from outside of its memory.
  (func $call_outside (result i32)
    (drop (call $cache (i32.const 0x1fff0) (i32.const 32)))
    (i32.const 0))
  ;; 22: a pointer behind the end of its memory, with a length of 0.
  (func $zero_outside (result i32)
    (call $resp_write (i32.const 0x20001) (i32.const 0))
    (i32.const 0))

  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (i32.eq (local.get $op) (i32.const 1)) (then (return (call $echo (local.get $n)))))
    (if (i32.eq (local.get $op) (i32.const 2)) (then (return (call $trap))))
    (if (i32.eq (local.get $op) (i32.const 3)) (then (return (call $spin))))
    (if (i32.eq (local.get $op) (i32.const 4)) (then (return (call $twice))))
    (if (i32.eq (local.get $op) (i32.const 5)) (then (return (call $outside))))
    (if (i32.eq (local.get $op) (i32.const 6)) (then (return (call $silent))))
    (if (i32.eq (local.get $op) (i32.const 7)) (then (return (call $fail))))
    (if (i32.eq (local.get $op) (i32.const 8)) (then (return (call $host_call (local.get $n)))))
    (if (i32.eq (local.get $op) (i32.const 9)) (then (return (call $grow))))
    (if (i32.eq (local.get $op) (i32.const 10)) (then (return (call $exit))))
    (if (i32.eq (local.get $op) (i32.const 11)) (then (return (call $count))))
    (if (i32.eq (local.get $op) (i32.const 12)) (then (return (call $large))))
    (if (i32.eq (local.get $op) (i32.const 13)) (then (return (call $recurse))))
    (if (i32.eq (local.get $op) (i32.const 14)) (then (return (call $stdout))))
    (if (i32.eq (local.get $op) (i32.const 15)) (then (return (call $beyond))))
    (if (i32.eq (local.get $op) (i32.const 16)) (then (return (call $read_outside))))
    (if (i32.eq (local.get $op) (i32.const 17)) (then (return (call $two_errors))))
    (if (i32.eq (local.get $op) (i32.const 18)) (then (return (call $host_spin))))
    (if (i32.eq (local.get $op) (i32.const 19)) (then (return (call $doubling))))
    (if (i32.eq (local.get $op) (i32.const 20)) (then (return (call $room))))
    (if (i32.eq (local.get $op) (i32.const 21)) (then (return (call $call_outside))))
    (if (i32.eq (local.get $op) (i32.const 22)) (then (return (call $zero_outside))))
    (i32.const 5)))
