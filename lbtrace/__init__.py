"""lbtrace shows how a compiled program runs, call by call."""
