#include "privileges.h"

#include <sys/prctl.h>

int lbt_drop_ambient(void)
{
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}
