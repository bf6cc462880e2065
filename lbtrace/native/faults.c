/*
 * Files that are cut short while they are mapped.
 *
 * Reading beyond the end of a mapped file raises SIGBUS (mmap(2)), and so does a page that the
 * disk cannot deliver. A reader of other users' files cannot keep them from being overwritten:
 * in guarded mappings, a page that is gone reads as zeros, and comparing the file's size with
 * the mapping's shows it. Any other SIGBUS goes to the former handler.
 */
#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define LBT_GUARDED 1024 /* mappings at once; others are not guarded */

static struct {
	volatile uintptr_t start, end;
} lbt_guarded[LBT_GUARDED];

static uintptr_t lbt_page;
static struct sigaction lbt_former;

static void lbt_on_fault(int number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	int kept = errno;

	(void)number, (void)context;
	for (int i = 0; i < LBT_GUARDED; i++) {
		if (at < lbt_guarded[i].start || at >= lbt_guarded[i].end)
			continue;
		void *zeros = mmap((void *)(at & -lbt_page), lbt_page, PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		errno = kept;
		if (zeros != MAP_FAILED)
			return;
	}
	sigaction(SIGBUS, &lbt_former, NULL); /* the instruction faults again */
}

int lbt_guard(const void *start, size_t size)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK}, present;

	lbt_page = (uintptr_t)sysconf(_SC_PAGESIZE);
	action.sa_sigaction = lbt_on_fault;
	sigaction(SIGBUS, NULL, &present);
	if (present.sa_sigaction != lbt_on_fault)
		sigaction(SIGBUS, &action, &lbt_former);
	for (int place = 0; place < LBT_GUARDED; place++) {
		uintptr_t free = 0;

		if (!__atomic_compare_exchange_n(&lbt_guarded[place].end, &free, 1, 0,
						 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue; /* of this thread or of another one */
		lbt_guarded[place].start = (uintptr_t)start;
		lbt_guarded[place].end = (uintptr_t)start + size;
		return place;
	}
	return -1;
}

void lbt_forget(int place)
{
	if (place >= 0)
		lbt_guarded[place].end = 0;
}
