"""Events to calls, per thread or goroutine, matched by frame."""

from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.visitor import Visitor

__all__ = ["CallMatcher", "Visitor"]
