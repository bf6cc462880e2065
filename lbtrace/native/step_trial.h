/* What probes cost on the running machine, measured on functions of lbtrace's own. */
#ifndef LBT_STEP_TRIAL_H
#define LBT_STEP_TRIAL_H

/*
 * Nanoseconds of processor time that a probe costs on an instruction that the kernel single-steps;
 * with `hooks` instead what a uretprobe adds to the probe at an entry. 0 where that cannot be tried.
 */
long lbt_time_probe(int hooks);

#endif
