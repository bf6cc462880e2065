"""Files of any format: found by name, opened with care, written whole; the cache between runs."""
