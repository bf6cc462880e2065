#lang racket/base
(require racket/trace)
(define (deep n) (if (= n 0) 0 (+ (deep (- n 1)) n)))
(trace deep)
(void (deep 1000))
