"""Switches between greenlets in the middle of sorting, which the C library does."""

import ctypes

import greenlet

libc = ctypes.CDLL("libc.so.6")
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
main = greenlet.getcurrent()


def sort():
    numbers = (ctypes.c_int * 4)(4, 2, 3, 1)
    libc.qsort(numbers, 4, 4, COMPARE(lambda a, b: (main.switch(), a[0] - b[0])[1]))
    return list(numbers)


lanes = [greenlet.greenlet(sort) for _ in range(3)]
while alive := [lane for lane in lanes if not lane.dead]:
    results = [lane.switch() for lane in alive]
print(results)
