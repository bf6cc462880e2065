"""Events to calls, per thread or goroutine, matched by frame."""
