;; What the benchmarks run: each shape of code that the meter adds to.
(module
  (memory (export "memory") 16)
  (func (export "empty") (param i32) (result i32) (local.get 0))
  (func (export "sum") (param $n i32) (result i32)
    (local $s i32)
    (loop $next
      (local.set $s (i32.add (local.get $s) (local.get $n)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $s))
  (func $leaf (param i32) (result i32)
    (i32.xor (i32.shl (local.get 0) (i32.const 3)) (local.get 0)))
  (func (export "calls") (param $n i32) (result i32)
    (local $s i32)
    (loop $next
      (local.set $s (i32.add (local.get $s) (call $leaf (local.get $n))))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $s))
  (func $fibonacci (export "fibonacci") (param $n i32) (result i32)
    (if (result i32) (i32.lt_u (local.get $n) (i32.const 2))
      (then (local.get $n))
      (else (i32.add
        (call $fibonacci (i32.sub (local.get $n) (i32.const 1)))
        (call $fibonacci (i32.sub (local.get $n) (i32.const 2)))))))
  ;; a string compare of 4 bytes, again and again
  (func (export "nested") (param $n i32) (result i32)
    (local $i i32)
    (loop $next
      (local.set $i (i32.const 4))
      (loop $byte
        (i32.store8 (local.get $i) (i32.load8_u offset=64 (local.get $i)))
        (br_if $byte (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 4)))))
    (local.get $n))
  (func (export "copies") (param $n i32) (result i32)
    (loop $next
      (memory.copy (i32.const 0) (i32.const 1024) (i32.const 24))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $n)))
