"""Planning of Go functions: calling convention, probe sites, goroutines."""
