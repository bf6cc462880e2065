"""What is decided before the kernel is touched: functions, values, places, returns."""

from lbtrace.plan.make import Placer, Selection, Traced, describe, go_plan, make_plan

__all__ = ["Placer", "Selection", "Traced", "describe", "go_plan", "make_plan"]
