/* Usage: strip_debug OBJECT COPY: copies a BPF object without what only debuggers read (DWARF),
 * by libbpf's static linker, which keeps the programs, the maps, .BTF and .BTF.ext. */
#include <bpf/libbpf.h>
#include <stdio.h>

int main(int count, char **words)
{
	struct bpf_linker *linker;

	if (count != 3)
		return 2;
	linker = bpf_linker__new(words[2], NULL);
	if (!linker)
		return 1;
	if (bpf_linker__add_file(linker, words[1], NULL) || bpf_linker__finalize(linker))
		return 1;
	bpf_linker__free(linker);
	return 0;
}
