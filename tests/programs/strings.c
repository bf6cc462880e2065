/* Strings that are hard to show: as text up to a NUL, and with a length. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) long take(const char *text, long length)
{
	__asm__ volatile("" ::"r"(text), "r"(length) : "memory");
	return length;
}

static const struct {
	const char *text;
	long length;
} hard[] = {
	{ "\xff\xfe latin \xe9", 11 },
	{ "before\0behind", 13 },
	{ "\"quoted\" 'and' \\escaped\\", 24 },
	{ "\x1b[31mred\x1b[0m\x1b]0;title\a", 22 },
	{ "tab\tnewline\nreturn\r\b\f\v\x7f", 24 },
	{ "\xc2\x9b" "31m \xe2\x80\xae reversed", 18 },
	{ "h\xc3\xa9llo \xf0\x9f\x8e\x89", 11 },
	{ "</script>|<b>&amp;", 18 },
	{ "", 0 },
};

int main(int argc, char *argv[])
{
	size_t long_sizes[] = { 63, 64, 65, 4095, 4096, 70000, 1 << 20 };
	long page = sysconf(_SC_PAGESIZE);
	char *edge, *cold;

	for (unsigned i = 0; i < sizeof(hard) / sizeof(*hard); i++) {
		volatile char touched = *hard[i].text;

		(void)touched;
		take(hard[i].text, hard[i].length);
	}
	for (unsigned i = 0; i < sizeof(long_sizes) / sizeof(*long_sizes); i++) {
		char *text = malloc(long_sizes[i] + 1);

		memset(text, 'x', long_sizes[i]);
		text[long_sizes[i]] = 0;
		take(text, long_sizes[i]);
		free(text);
	}
	/* no address; one that nobody may read; text that runs into a page that is not there */
	take((const char *)8, 4);
	take((const char *)0xffff800000000000, 4);
	edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + page, page);
	memset(edge + page - 80, 'e', 80);
	take(edge + page - 80, 80);
	memcpy(edge + page - 4, "end", 4);
	take(edge + page - 4, 3);
	/* nobody has read this page yet: the file begins with \177ELF */
	cold = mmap(NULL, page, PROT_READ, MAP_PRIVATE, open(argv[0], O_RDONLY), 0);
	take(cold + 1, 3);
	return argc < 0;
}
