"""ELF files: segments, symbols, debug information. The only importer of pyelftools."""
