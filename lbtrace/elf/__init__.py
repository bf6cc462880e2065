"""ELF files: segments, symbols, debug information."""
