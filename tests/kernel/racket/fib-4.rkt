#lang racket/base
(require racket/trace)
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(trace fib)
(void (fib 4))
