/* Throws through a function of a library. */
#include <cstdio>
#include <cstdlib>

int main()
{
	int numbers[] = {3, 1, 2};

	try {
		qsort(numbers, 3, sizeof(int), [](const void *, const void *) -> int { throw 1; });
	} catch (int) {
		std::puts("caught");
	}
}
