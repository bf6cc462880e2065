/* Sorts as often as it is known, once it may: the process that is traced. */
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
	puts("ready");
	fflush(stdout);
	for (int i = argc > 1 && getchar() == '\n' ? atoi(argv[1]) : 0; i; i--) {
		int numbers[] = {3, 1, 2};

		qsort(numbers, 3, sizeof(int), compare);
	}
	return 0;
}
