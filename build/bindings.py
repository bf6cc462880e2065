"""Generates the C that makes Python modules of libbpf, as far as lbtrace uses it, of LLVM's
demangler of C++ names, and of lbtrace/native."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent

LIBBPF = """
enum bpf_map_type { BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_RINGBUF, ... };
struct bpf_object;
struct bpf_program;
struct bpf_map;
struct bpf_link;
struct btf;

enum bpf_attach_type {
    BPF_TRACE_KPROBE_MULTI, BPF_TRACE_UPROBE_MULTI, BPF_TRACE_UPROBE_SESSION, BPF_PERF_EVENT, ...
};

struct bpf_object_open_opts { size_t sz; const char *object_name; ...; };
struct bpf_object *bpf_object__open_mem(
    const void *buffer, size_t size, const struct bpf_object_open_opts *options);
int bpf_object__load(struct bpf_object *object);
void bpf_object__close(struct bpf_object *object);

struct bpf_map *bpf_object__find_map_by_name(const struct bpf_object *object, const char *name);
struct bpf_map *bpf_object__next_map(
    const struct bpf_object *object, const struct bpf_map *before);
const char *bpf_map__name(const struct bpf_map *map);
int bpf_map__fd(const struct bpf_map *map);
int bpf_map__reuse_fd(struct bpf_map *map, int fd);
int bpf_map__set_max_entries(struct bpf_map *map, uint32_t entries);
int bpf_map__set_type(struct bpf_map *map, enum bpf_map_type type);
int bpf_map__set_key_size(struct bpf_map *map, uint32_t size);
int bpf_map__set_value_size(struct bpf_map *map, uint32_t size);
int bpf_map__set_map_flags(struct bpf_map *map, uint32_t flags);
int bpf_map__set_autocreate(struct bpf_map *map, bool autocreate);
uint32_t bpf_map__max_entries(const struct bpf_map *map);
uint32_t bpf_map__key_size(const struct bpf_map *map);
uint32_t bpf_map__value_size(const struct bpf_map *map);
void *bpf_map__initial_value(const struct bpf_map *map, size_t *size);
int bpf_map__get_next_key(const struct bpf_map *map, const void *key, void *next, size_t key_size);
int bpf_map__lookup_elem(const struct bpf_map *map, const void *key, size_t key_size,
                         void *value, size_t value_size, uint64_t flags);
int bpf_map__update_elem(const struct bpf_map *map, const void *key, size_t key_size,
                         const void *value, size_t value_size, uint64_t flags);
int bpf_map__delete_elem(const struct bpf_map *map, const void *key, size_t key_size,
                         uint64_t flags);
#define BPF_F_MMAPABLE ...
struct bpf_map_create_opts { size_t sz; uint32_t map_flags; ...; };
int bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key_size,
                   uint32_t value_size, uint32_t entries,
                   const struct bpf_map_create_opts *options);

int bpf_map_lookup_batch(int fd, void *in_batch, void *out_batch, void *keys, void *values,
                         uint32_t *count, const void *opts);

struct bpf_program *bpf_object__find_program_by_name(
    const struct bpf_object *object, const char *name);
int bpf_program__fd(const struct bpf_program *program);
int bpf_program__set_autoload(struct bpf_program *program, bool autoload);
#define BPF_F_SLEEPABLE ...
int bpf_program__set_flags(struct bpf_program *program, uint32_t flags);
int bpf_program__set_expected_attach_type(
    struct bpf_program *program, enum bpf_attach_type type);

struct bpf_uprobe_opts {
    size_t sz; size_t ref_ctr_offset; uint64_t bpf_cookie; bool retprobe; ...;
};
struct bpf_link *bpf_program__attach_uprobe_opts(
    const struct bpf_program *program, int pid, const char *path, size_t offset,
    const struct bpf_uprobe_opts *options);
struct bpf_uprobe_multi_opts {
    size_t sz; const char **syms; const unsigned long *offsets; const unsigned long long *cookies;
    const unsigned long *ref_ctr_offsets; size_t cnt; bool retprobe; bool session; ...;
};
struct bpf_link *bpf_program__attach_uprobe_multi(
    const struct bpf_program *program, int pid, const char *path, const char *pattern,
    const struct bpf_uprobe_multi_opts *options);
struct bpf_kprobe_opts { size_t sz; uint64_t bpf_cookie; size_t offset; bool retprobe; ...; };
struct bpf_link *bpf_program__attach_kprobe_opts(
    const struct bpf_program *program, const char *function, const struct bpf_kprobe_opts *options);
struct bpf_kprobe_multi_opts {
    size_t sz; const char **syms; const unsigned long long *cookies; size_t cnt; bool retprobe; ...;
};
struct bpf_link *bpf_program__attach_kprobe_multi_opts(
    const struct bpf_program *program, const char *pattern,
    const struct bpf_kprobe_multi_opts *options);
struct bpf_tracepoint_opts { size_t sz; uint64_t bpf_cookie; ...; };
struct bpf_link *bpf_program__attach_tracepoint_opts(
    const struct bpf_program *program, const char *category, const char *name,
    const struct bpf_tracepoint_opts *options);
struct bpf_perf_event_opts { size_t sz; uint64_t bpf_cookie; ...; };
struct bpf_link *bpf_program__attach_perf_event_opts(
    const struct bpf_program *program, int event, const struct bpf_perf_event_opts *options);
struct bpf_raw_tracepoint_opts { size_t sz; uint64_t cookie; ...; };
struct bpf_link *bpf_program__attach_raw_tracepoint_opts(
    const struct bpf_program *program, const char *name, struct bpf_raw_tracepoint_opts *options);
struct bpf_link *bpf_program__attach(const struct bpf_program *program);
int bpf_link__fd(const struct bpf_link *link);
int bpf_link__destroy(struct bpf_link *link);

struct btf *btf__load_vmlinux_btf(void);
struct btf *bpf_object__btf(const struct bpf_object *object);
int btf__find_by_name(const struct btf *btf, const char *name);
long btf__resolve_size(const struct btf *btf, uint32_t id);
void btf__free(struct btf *btf);

enum bpf_prog_type { BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_TRACING, ... };
enum bpf_func_id { BPF_FUNC_get_attach_cookie, BPF_FUNC_get_current_task_btf,
    BPF_FUNC_find_vma, ... };
int libbpf_probe_bpf_map_type(enum bpf_map_type type, const void *options);
int libbpf_probe_bpf_helper(
    enum bpf_prog_type program, enum bpf_func_id helper, const void *options);

const char *libbpf_version_string(void);
int libbpf_num_possible_cpus(void);
"""

NATIVE = (
    *("kernel_features", "launch", "log", "mappings", "misses", "privileges"),
    *("reader", "step_trial", "tracepoint"),
)
"""Files of lbtrace/native that stand beside libbpf in its module."""

DECLARED = """
struct lbt_thread { uint64_t time; uint32_t pid; uint32_t tid; struct lbt_runner runner; };
struct lbt_reader {
    char *events; size_t count; size_t entries; char *blobs; size_t blob_size;
    struct lbt_thread *threads; size_t thread_count; ...;
};
struct lbt_reader *lbt_reader_new(int ring_fd, uint64_t *wake_at, size_t capacity);
void lbt_reader_free(struct lbt_reader *reader);
int lbt_reader_is_filling(const struct lbt_reader *reader);
void lbt_reader_sleep(struct lbt_reader *reader);
void lbt_reader_wake(struct lbt_reader *reader);
int lbt_reader_make(
    struct lbt_reader *reader, uint32_t probe, const struct lbt_decoded_registers *decoded);
int lbt_reader_drain(struct lbt_reader *reader, size_t most);
struct lbt_mappings {
    uint32_t *pids; size_t count; char *files; size_t file_size; uint64_t lost; ...;
};
struct lbt_mappings *lbt_mappings_new(void);
void lbt_mappings_free(struct lbt_mappings *mappings);
int lbt_mappings_fd(struct lbt_mappings *mappings);
int lbt_mappings_drain(struct lbt_mappings *mappings);
void lbt_log_start(void);
const char *lbt_log_text(void);
long long lbt_program_misses(int fd);
long long lbt_link_misses(int fd);
int lbt_probe_multi(enum bpf_attach_type type);
int lbt_probe_kernel_multi(void);
int lbt_probe_sleepable(void);
int lbt_probe_uretprobe_confined(void);
int lbt_open_tracepoint(uint64_t number);
long lbt_time_probe(int hooks);
int lbt_drop_ambient(void);
#define LBT_HELD ...
void lbt_launch(int gate, int report, char *const *paths, char *const *words, char **script,
                char *const *variables);
"""


C_TYPES = {
    "__u8": "unsigned char",
    "__u16": "unsigned short",
    "__s32": "int",
    "__u32": "unsigned int",
    "__s64": "long long",
    "__u64": "unsigned long long",
}
"""linux/types.h."""


DEMANGLER = "int lbt_demangle(const char *name, char *into, size_t size);"


def generate_demangler(into: Path) -> None:
    """Write the C source of the module of LLVM's demangler, with bounds (demangle.c)."""
    ffi = FFI()
    ffi.cdef(DEMANGLER)
    ffi.set_source("lbtrace.elf._demangle", '#include "demangle.h"', py_limited_api=True)
    ffi.emit_c_code(str(into))


def generate_own(into: Path, module: str, names: Sequence[str]) -> None:
    """Write the C source of the extension module of what headers of lbtrace/native declare."""
    ffi = FFI()
    headers = [ROOT / f"lbtrace/native/{name}.h" for name in names]
    names = [path.stem for path in headers if path.exists()]
    header = "".join(path.read_text() for path in headers if path.exists())
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    constants = dict(re.findall(r"^#define (\w+) (\d+)\s*$", header, re.M))
    for constant, value in constants.items():
        header = re.sub(rf"\b{constant}\b", value, header)
    ffi.cdef("\n".join(line for line in header.splitlines() if not line.startswith("#")))
    included = "".join(f'#include "{name}.h"\n' for name in names)
    ffi.set_source(module, included, py_limited_api=True)
    ffi.emit_c_code(str(into))


def generate(into: Path) -> None:
    """Write the C source of the module of libbpf."""
    ffi = FFI()
    ffi.cdef(LIBBPF)
    ffi.cdef(_abi())
    ffi.cdef(DECLARED)
    headers = [f"<bpf/{name}.h>" for name in ("bpf", "btf", "libbpf")]
    headers += [f'"{name}.h"' for name in NATIVE]
    included = "".join(f"#include {header}\n" for header in headers)
    ffi.set_source("lbtrace.bpf._libbpf", included, py_limited_api=True)
    ffi.emit_c_code(str(into))


def _abi() -> str:
    """The declarations of bpf_src/wire.h and lbtrace.h, as cffi's parser takes them."""
    text = "".join((ROOT / "bpf_src" / name).read_text() for name in ("wire.h", "lbtrace.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    constants = dict(re.findall(r"^#define (LBT_\w+) (\d+)\s*$", text, re.M))
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for name, value in constants.items():
        text = re.sub(rf"\b{name}\b", value, text)
    for short, long in C_TYPES.items():
        text = re.sub(rf"\b{short}\b", long, text)
    return "".join(f"#define {name} ...\n" for name in constants) + text


if __name__ == "__main__":
    import sys

    generate(Path(sys.argv[1]))
