/*
 * An exception leaves a function of the C library.
 *
 *     thrower [wait]
 *
 * With an argument it waits for a line first.
 */
#include <cstdio>
#include <cstdlib>
static int compare(const void *, const void *) { throw 5; }
int main(int argc, char **)
{
	int numbers[] = {3, 1, 2};
	if (argc > 1)
		getchar();
	try { qsort(numbers, 3, sizeof(int), compare); } catch (int n) { printf("caught %d\n", n); }
}
