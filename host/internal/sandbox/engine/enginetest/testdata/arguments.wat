;; A guest whose request says which import it calls with which arguments, how
;; it traps, or how deep it recurses. host/internal/sandbox/engine/enginetest says what is
;; expected of each.
(module
  (import "ccm_v1" "req_read" (func $req_read (param i32 i32 i32) (result i32)))
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "err_write" (func $err_write (param i32 i32)))
  (import "ccm_v1" "result_read" (func $result_read (param i32 i32 i32) (result i32)))
  (import "ccm_v1" "log" (func $log (param i32 i32) (result i64)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_res_get" (func $clock_res_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fd_fdstat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (type $none (func))
  (type $number (func (result i32)))
  (table 4 funcref)
  (elem (i32.const 0) $nothing)

  (func $nothing)
  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))

  ;; The nth word of the request.
  (func $word (param $n i32) (result i32)
    (drop (call $req_read (i32.const 0) (i32.const 0) (i32.const 20)))
    (i32.load (i32.mul (local.get $n) (i32.const 4))))

  ;; 1: calls the import that word 0 says with words 1 to 4, and answers with
  ;; what it returned.
  (func $import (param $a i32) (param $b i32) (param $c i32) (param $d i32) (param $which i32) (result i32)
    (if (i32.eq (local.get $which) (i32.const 0)) (then (return (call $req_read (local.get $a) (local.get $b) (local.get $c)))))
    (if (i32.eq (local.get $which) (i32.const 1)) (then (call $resp_write (local.get $a) (local.get $b)) (return (i32.const 0))))
    (if (i32.eq (local.get $which) (i32.const 2)) (then (call $err_write (local.get $a) (local.get $b)) (return (i32.const 0))))
    (if (i32.eq (local.get $which) (i32.const 3)) (then (return (call $result_read (local.get $a) (local.get $b) (local.get $c)))))
    (if (i32.eq (local.get $which) (i32.const 4)) (then (return (i32.wrap_i64 (call $log (local.get $a) (local.get $b))))))
    (if (i32.eq (local.get $which) (i32.const 5)) (then (return (i32.wrap_i64 (call $cache (local.get $a) (local.get $b))))))
    (if (i32.eq (local.get $which) (i32.const 6)) (then (return (call $fd_write (local.get $a) (local.get $b) (local.get $c) (local.get $d)))))
    (if (i32.eq (local.get $which) (i32.const 7)) (then (return (call $random_get (local.get $a) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 8)) (then (return (call $args_get (local.get $a) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 9)) (then (return (call $args_sizes_get (local.get $a) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 10)) (then (return (call $environ_sizes_get (local.get $a) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 11)) (then (return (call $clock_time_get (local.get $a) (i64.const 0) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 12)) (then (return (call $clock_res_get (local.get $a) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 13)) (then (return (call $fd_fdstat_get (local.get $a) (local.get $b)))))
    (if (i32.eq (local.get $which) (i32.const 14)) (then (return (call $poll_oneoff (local.get $a) (local.get $b) (local.get $c) (local.get $d)))))
    (unreachable))
  (func $arguments (result i32)
    (i32.store (i32.const 64)
      (call $import (call $word (i32.const 1)) (call $word (i32.const 2)) (call $word (i32.const 3)) (call $word (i32.const 4)) (call $word (i32.const 0))))
    (call $resp_write (i32.const 64) (i32.const 4))
    (i32.const 0))

  ;; 2: answers and traps.
  (func $answer_and_trap (result i32)
    (call $resp_write (i32.const 0) (i32.const 4))
    (unreachable))

  ;; 3: a host call from as many levels deep as word 0 says.
  (func $down (param $levels i32) (result i32)
    (if (i32.eqz (local.get $levels)) (then (return (i32.wrap_i64 (call $cache (i32.const 0) (i32.const 0))))))
    (i32.add (call $down (i32.sub (local.get $levels) (i32.const 1))) (i32.const 1)))
  (func $deep (result i32)
    (drop (call $down (call $word (i32.const 0))))
    (i32.const 0))

  ;; 4: a host call with the last 4 bytes of the memory; then grows it, reads
  ;; the result to where no memory was before, and answers from there.
  (func $grow (result i32)
    (local $got i32)
    (drop (call $req_read (i32.const 0) (i32.const 0xfffc) (i32.const 4)))
    (drop (call $cache (i32.const 0xfffc) (i32.const 4)))
    (drop (memory.grow (i32.const 4)))
    (local.set $got (call $result_read (i32.const 0) (i32.const 0x4fff0) (i32.const 16)))
    (call $resp_write (i32.const 0x4fff0) (local.get $got))
    (i32.const 0))

  ;; 5: a loop of as many turns as word 0 says.
  (func $turns (param $n i32) (result i32)
    (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 31)) (local.get $n)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func $loop (result i32)
    (i32.store (i32.const 64) (call $turns (call $word (i32.const 0))))
    (call $resp_write (i32.const 64) (i32.const 4))
    (i32.const 0))

  ;; 6: traps in the way that word 0 says.
  (func $trap (result i32)
    (local $how i32)
    (local.set $how (call $word (i32.const 0)))
    (if (i32.eq (local.get $how) (i32.const 1)) (then (return (i32.load (i32.const 0x10000)))))
    (if (i32.eq (local.get $how) (i32.const 2)) (then (return (i32.load offset=0xffffffff (i32.const -1)))))
    (if (i32.eq (local.get $how) (i32.const 3)) (then (memory.fill (i32.const 0xfffe) (i32.const 0) (i32.const 4)) (return (i32.const 0))))
    (if (i32.eq (local.get $how) (i32.const 4)) (then (call_indirect (type $none) (i32.const 1)) (return (i32.const 0))))
    (if (i32.eq (local.get $how) (i32.const 5)) (then (call_indirect (type $none) (i32.const 4)) (return (i32.const 0))))
    (if (i32.eq (local.get $how) (i32.const 6)) (then (return (call_indirect (type $number) (i32.const 0)))))
    (if (i32.eq (local.get $how) (i32.const 7)) (then (return (i32.div_u (i32.const 1) (i32.const 0)))))
    (if (i32.eq (local.get $how) (i32.const 8)) (then (return (i32.div_s (i32.const 0x80000000) (i32.const -1)))))
    (if (i32.eq (local.get $how) (i32.const 9)) (then (return (i32.trunc_f64_s (f64.const nan)))))
    (if (i32.eq (local.get $how) (i32.const 10)) (then (return (i32.trunc_f64_s (f64.const 1e30)))))
    (unreachable))

  ;; 7: answers and exits with the status that word 0 says.
  (func $exit (result i32)
    (call $resp_write (i32.const 0) (i32.const 0))
    (call $proc_exit (call $word (i32.const 0)))
    (i32.const 0))

  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (return (call $arguments))))
    (if (i32.eq (local.get $op) (i32.const 2)) (then (return (call $answer_and_trap))))
    (if (i32.eq (local.get $op) (i32.const 3)) (then (return (call $deep))))
    (if (i32.eq (local.get $op) (i32.const 4)) (then (return (call $grow))))
    (if (i32.eq (local.get $op) (i32.const 5)) (then (return (call $loop))))
    (if (i32.eq (local.get $op) (i32.const 6)) (then (return (call $trap))))
    (if (i32.eq (local.get $op) (i32.const 7)) (then (return (call $exit))))
    (i32.const 0)))
