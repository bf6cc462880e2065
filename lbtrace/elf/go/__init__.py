"""The tables that the Go runtime keeps about its own program."""
