/* Asks for a variable of the environment. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	printf("%s\n", getenv("STRANGER"));
	return 0;
}
