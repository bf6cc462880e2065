"""What mangled names of C++ tell of functions without debug information: their parameters' types.

A name tells neither whether a function has a ``this`` nor, but of templates, what it returns: an
object that it returns in memory takes the first register of x86-64. `prototypes.py` reads from the
code how many registers come before those of the named parameters.
"""
