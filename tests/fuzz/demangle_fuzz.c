/* LLVM's demangler with lbtrace's bounds under libFuzzer and the sanitizers. */
#include "demangle.c"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static char name[4097], into[64 << 10];

	if (size > 4094)
		return 0;
	memcpy(name, "_Z", 2);
	memcpy(name + 2, data, size);
	name[2 + size] = 0;
	lbt_demangle(name, into, sizeof(into));
	return 0;
}
