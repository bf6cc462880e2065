/* What is known of functions, and of pointers to them: whether they never return. */
#ifndef LBT_ANSWERS_H
#define LBT_ANSWERS_H

#include <stdint.h>

enum { LBT_NOT_KNOWN = -1 };

struct lbt_answers;
struct lbt_answers *lbt_answers_new(void);
void lbt_answers_free(struct lbt_answers *answers);
void lbt_answers_forget(struct lbt_answers *answers); /* all of them */

/* Of a function, or that to which a pointer at an address leads; addresses have 62 bits. */
int lbt_answers_find(const struct lbt_answers *answers, uint64_t address, int pointer);
int lbt_answers_add(struct lbt_answers *answers, uint64_t address, int pointer, int ends);

#endif
