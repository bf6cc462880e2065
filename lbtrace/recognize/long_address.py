"""Addresses of IPv6, which are fetched as the arrays that they are."""

from __future__ import annotations

from lbtrace.recognize.array import KindFetcher

__all__ = ["KindFetcher"]
