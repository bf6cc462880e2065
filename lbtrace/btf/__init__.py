"""BTF, the kernel's description of its own types (Documentation/bpf/btf.rst)."""
