"""Events to calls, per thread or goroutine, matched by frame."""

from lbtrace.calls.matcher import CallMatcher, Visitor

__all__ = ["CallMatcher", "Visitor"]
