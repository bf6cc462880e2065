"""The kernel side: objects, links, the ring buffer, feature probes.

The only importer of the generated bindings. Imports of this package's modules
load libbpf, so they belong where a session begins, not at start-up.
"""
