"""What the system offers a tracer: processes, users, open files, limits."""
