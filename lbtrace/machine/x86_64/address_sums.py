"""Addresses that x86-64 code computes, written out as sums."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

MASK = (1 << 64) - 1


class Load(NamedTuple):
    """A word of ``size`` bytes at the address that a `Sum` says."""

    address: Sum
    size: int
    signed: bool


class Index(Struct, frozen=True):
    """What the register called ``name`` holds before the instruction at ``ip``."""

    name: str
    ip: int


class Sum(Struct, frozen=True):
    """A constant, and terms with their factors."""

    constant: int = 0
    terms: tuple[tuple[int, Load | Index], ...] = ()

    def plus(self, other: Sum) -> Sum:
        """Return the sum of both."""
        return Sum(self.constant + other.constant & MASK, self.terms + other.terms)

    def times(self, factor: int) -> Sum:
        """Return the product with a number."""
        terms = tuple((factor * f, term) for f, term in self.terms)
        return Sum(self.constant * factor & MASK, terms)
