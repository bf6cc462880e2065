"""Answers that many calls give together: tables instead of calls."""
