;; A guest whose op number selects a function of WASI preview 1 and how it is
;; abused. It answers with the errno; host/internal/sandbox/engine/enginetest says which.
(module
  (import "ccm_v1" "resp_write" (func $resp_write (param i32 i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_renumber" (func $fd_renumber (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_send" (func $sock_send (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 8)

  (func (export "ccm_abi_v1"))
  (func (export "_initialize"))

  ;; count iovecs from address 1024 on, each of which is the whole memory.
  (func $iovecs (param $count i32)
    (local $at i32)
    (local.set $at (i32.const 1024))
    (loop $l
      (i32.store (local.get $at) (i32.const 0))
      (i32.store offset=4 (local.get $at) (i32.const 0x80000))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $l (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))

  ;; Waits for a clock (tag 0) this long, or for a file (tag 1).
  (func $sleep (param $tag i32) (param $ns i64) (result i32)
    (memory.fill (i32.const 0) (i32.const 0) (i32.const 48))
    (i32.store8 (i32.const 8) (local.get $tag))
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (local.get $ns))
    (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))

  (func $errno (param $op i32) (result i32)
    ;; 1: too many iovecs in one write
    (if (i32.eq (local.get $op) (i32.const 1)) (then
      (call $iovecs (i32.const 60000))
      (return (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 60000) (i32.const 8)))))
    ;; 2: as many as are allowed: 512 MiB, of which only a part is written
    (if (i32.eq (local.get $op) (i32.const 2)) (then
      (call $iovecs (i32.const 1024))
      (return (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1024) (i32.const 8)))))
    ;; 3: a write to a file descriptor that is not open
    (if (i32.eq (local.get $op) (i32.const 3)) (then
      (return (call $fd_write (i32.const 3) (i32.const 1024) (i32.const 0) (i32.const 8)))))
    ;; 4: iovecs, and 5: an iovec, outside of the memory
    (if (i32.eq (local.get $op) (i32.const 4)) (then
      (return (call $fd_write (i32.const 2) (i32.const 0x7fffff) (i32.const 1) (i32.const 8)))))
    (if (i32.eq (local.get $op) (i32.const 5)) (then
      (i32.store (i32.const 0) (i32.const 0xfffffff0))
      (i32.store (i32.const 4) (i32.const 0xff))
      (return (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))))
    ;; 6: a descriptor number that makes a table of gigabytes
    (if (i32.eq (local.get $op) (i32.const 6)) (then
      (return (call $fd_renumber (i32.const 1) (i32.const 0x7ffffff0)))))
    ;; 7: an hour's sleep
    (if (i32.eq (local.get $op) (i32.const 7)) (then
      (return (call $sleep (i32.const 0) (i64.const 3600000000000)))))
    ;; 8: a short sleep
    (if (i32.eq (local.get $op) (i32.const 8)) (then
      (return (call $sleep (i32.const 0) (i64.const 1000)))))
    ;; 9: waits for a file
    (if (i32.eq (local.get $op) (i32.const 9)) (then
      (return (call $sleep (i32.const 1) (i64.const 0)))))
    ;; 10: waits for more than fits
    (if (i32.eq (local.get $op) (i32.const 10)) (then
      (return (call $poll_oneoff (i32.const 0) (i32.const 0) (i32.const 0x5555556) (i32.const 0)))))
    ;; 11: random bytes, 12: too many, 13: outside of its memory
    (if (i32.eq (local.get $op) (i32.const 11)) (then
      (return (call $random_get (i32.const 0) (i32.const 0x80000)))))
    (if (i32.eq (local.get $op) (i32.const 12)) (then
      (return (call $random_get (i32.const 0) (i32.const 0x7fffffff)))))
    (if (i32.eq (local.get $op) (i32.const 13)) (then
      (return (call $random_get (i32.const 0x7ffff) (i32.const 16)))))
    ;; 14 to 17: files and sockets
    (if (i32.eq (local.get $op) (i32.const 14)) (then
      (return (call $path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 16)))))
    (if (i32.eq (local.get $op) (i32.const 15)) (then
      (return (call $sock_send (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 16)))))
    (if (i32.eq (local.get $op) (i32.const 16)) (then
      (return (call $fd_read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 8)))))
    (if (i32.eq (local.get $op) (i32.const 17)) (then
      (return (call $fd_prestat_get (i32.const 3) (i32.const 0)))))
    ;; 18: the number of environment variables instead of an errno
    (if (i32.eq (local.get $op) (i32.const 18)) (then
      (drop (call $environ_sizes_get (i32.const 16) (i32.const 20)))
      (return (i32.load (i32.const 16)))))
    ;; 19: whether the real clock is behind 2025, which is 1 when it is
    (if (i32.eq (local.get $op) (i32.const 19)) (then
      (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 16)))
      (return (i64.lt_u (i64.load (i32.const 16)) (i64.const 1735689600000000000)))))
    ;; 20: exits without an error
    (call $proc_exit (i32.const 0))
    (i32.const 0))

  (func (export "ccm_call") (param $op i32) (param $n i32) (result i32)
    (i32.store (i32.const 512) (call $errno (local.get $op)))
    (call $resp_write (i32.const 512) (i32.const 4))
    (i32.const 0)))
