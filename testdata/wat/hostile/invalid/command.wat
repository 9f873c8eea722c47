;; Is a program with _start instead of a provider. Must be refused.
(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $l (br $l))))
