;; Code that holds a processor as long as it can on one tank of fuel.
(module
  (type $void (func))
  (memory (export "memory") 2 1024)
  (table $t 1 1048576 funcref)
  (elem (i32.const 0) $nothing)
  (func $nothing)
  ;; grows to 64 MiB at once, or a page at a time, which may copy all of it
  (func (export "grow_at_once") (drop (memory.grow (i32.const 1022))))
  (func (export "grow_by_pages") (loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))))
  (func $fill (export "fill") (memory.fill (i32.const 0) (i32.const 1) (i32.shl (memory.size) (i32.const 16))))
  (func (export "copy_up")
    (memory.copy (i32.const 8) (i32.const 0) (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 8))))
  (func (export "grow_table") (drop (table.grow $t (ref.null func) (i32.const 1048575))))
  (func (export "fill_table") (table.fill $t (i32.const 0) (table.get $t (i32.const 0)) (i32.const 1048576)))
  (func (export "copy_table") (table.copy $t $t (i32.const 1) (i32.const 0) (i32.const 1048575)))
  ;; a list of every 64 bytes of the memory, in an order that no processor guesses
  (func (export "link")
    (local $i i32) (local $to i32)
    (loop $l
      (local.set $to (i32.and (i32.add (i32.mul (local.get $i) (i32.const 1664525)) (i32.const 1013904223)) (i32.const 0xfffff)))
      (i32.store (i32.shl (local.get $i) (i32.const 6)) (i32.shl (local.get $to) (i32.const 6)))
      (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 0x100000)))))
  (func (export "chase")
    (local $p i32) (local $n i32)
    (local.set $n (i32.const 100000))
    (loop $l
      (local.set $p
        (i32.load (i32.load (i32.load (i32.load (i32.load (i32.load (i32.load (i32.load
        (i32.load (i32.load (i32.load (i32.load (i32.load (i32.load (i32.load (i32.load (local.get $p))))))))))))))))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "divide") (param $d i64)
    (local $n i32) (local $x i64)
    (local.set $n (i32.const 3000000))
    (local.set $x (i64.const -1))
    (loop $l
      (local.set $x (i64.add (i64.const -3) (i64.div_u (local.get $x) (i64.const 3))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func $deep (export "recurse") (call $deep))
  (func (export "indirect")
    (local $n i32)
    (local.set $n (i32.const 5000000))
    (loop $l
      (call_indirect (type $void) (i32.const 0))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "grow_nothing")
    (local $n i32)
    (local.set $n (i32.const 100000))
    (loop $l
      (drop (memory.grow (i32.const 0)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))
