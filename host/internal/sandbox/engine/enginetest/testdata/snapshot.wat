;; A guest whose instances may begin as snapshots. Its state is in its memory, in
;; globals of each type of number, and in how large its memory is.
;; host/internal/sandbox/engine/enginetest/snapshot.go says what is expected.
(module
  (import "ccm_v1" "req_read" (func $req_read (param i32 i32 i32) (result i32)))
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "ccm_v1" "cache" (func $cache (param i32 i32) (result i64)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 4096) "first")
  (data (i32.const 65531) "\01\02\03\04\05")
  (table 2 funcref)
  (elem (i32.const 0) $one $two)
  (type $number (func (result i32)))
  (global $i32 (mut i32) (i32.const 1))
  (global $i64 (mut i64) (i64.const 2))
  (global $f32 (mut f32) (f32.const 3.5))
  (global $f64 (mut f64) (f64.const -0.1))
  (global $resumed (mut i32) (i32.const 0))
  (global $constant i32 (i32.const 7))

  (func $one (result i32) (i32.const 1))
  (func $two (result i32) (i32.const 2))
  (func (export "ccm_abi_v1"))
  (func (export "_initialize")
    (global.set $i64 (i64.add (global.get $i64) (i64.const 0x100000000))))

  ;; What resuming does is in the word at 512: 1 traps, 2 never ends, 3 reads a
  ;; request, which there is only in an op, 4 grows the memory.
  (func (export "ccm_resume")
    (local $how i32)
    (local.set $how (i32.load (i32.const 512)))
    (global.set $resumed (i32.add (global.get $resumed) (i32.const 1)))
    (drop (call $random_get (i32.const 1024) (i32.const 8)))
    (if (i32.eq (local.get $how) (i32.const 1)) (then (unreachable)))
    (if (i32.eq (local.get $how) (i32.const 2)) (then (loop $l (br $l))))
    (if (i32.eq (local.get $how) (i32.const 3)) (then (drop (call $req_read (i32.const 0) (i32.const 0) (i32.const 4)))))
    (if (i32.eq (local.get $how) (i32.const 4)) (then (drop (memory.grow (i32.const 1))))))

  ;; 1: keeps the two words of the request, the second one for the next resume.
  (func $keep
    (drop (call $req_read (i32.const 0) (i32.const 508) (i32.const 8)))
    (i32.store (i32.const 4096) (i32.load (i32.const 508)))
    (global.set $i32 (i32.load (i32.const 508)))
    (global.set $i64 (i64.mul (global.get $i64) (i64.const 3)))
    (global.set $f32 (f32.neg (global.get $f32)))
    (global.set $f64 (f64.mul (global.get $f64) (f64.const 7))))
  ;; 2: grows the memory by a page, to whose last word it writes.
  (func $grow
    (drop (memory.grow (i32.const 1)))
    (i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (memory.size)))
  ;; Every op answers with all of the state.
  (func $state (result i32)
    (i64.store (i32.const 2048) (i64.load (i32.const 4096)))
    (i64.store (i32.const 2056) (i64.load (i32.const 65528)))
    (i64.store (i32.const 2064) (global.get $i64))
    (f64.store (i32.const 2072) (global.get $f64))
    (f32.store (i32.const 2080) (global.get $f32))
    (i32.store (i32.const 2084) (global.get $i32))
    (i32.store (i32.const 2088) (memory.size))
    (i32.store (i32.const 2092) (i32.load (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4))))
    (i32.store (i32.const 2096) (i32.add (global.get $constant) (call_indirect (type $number) (i32.const 1))))
    (i32.store (i32.const 2100) (global.get $resumed))
    (i64.store (i32.const 2104) (i64.load (i32.const 1024)))
    (call $resp_write (i32.const 2048) (i32.const 64))
    (i32.const 0))
  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 1)) (then (call $keep)))
    (if (i32.eq (local.get $op) (i32.const 2)) (then (call $grow)))
    (if (i32.eq (local.get $op) (i32.const 3)) (then (drop (call $cache (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $op) (i32.const 4)) (then (unreachable)))
    (call $state)))
