/* Messages of libbpf in this thread, with the verifier's log, kept until they are taken. */
#ifndef LBT_LOG_H
#define LBT_LOG_H

void lbt_log_start(void);
const char *lbt_log_text(void);

#endif
