"""What is decided before the kernel is touched: functions, values, places, returns."""

from lbtrace.plan.placement import Placer
from lbtrace.plan.planner import make_plan
from lbtrace.plan.selection import Selection
from lbtrace.plan.traced_functions import TracedFunction, describe, go_plan

__all__ = ["Placer", "Selection", "TracedFunction", "describe", "go_plan", "make_plan"]
