"""From where a value lies to what the kernel fetches of it."""
