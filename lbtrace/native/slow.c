#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "slow_state.h"

#define LBT_SLOW_SLOTS 4096

static size_t lbt_slot_of(const struct lbt_slow *slow, uint32_t pid, uint64_t lane, uint32_t tid)
{
	const uint64_t key = lane ? lane << 22 ^ pid : tid;

	return (key * 0x9E3779B97F4A7C15ull >> 32) & (slow->slot_count - 1);
}

static void lbt_free_lane(struct lbt_slow_lane *lane)
{
	for (size_t i = 0; i < lane->base; i++)
		lbt_slow_forget(&lane->calls[i].opening);
	lbt_slow_forget(&lane->held);
	free(lane->calls);
	free(lane);
}

static struct lbt_slow_lane *lbt_lane_of(struct lbt_slow *slow, const struct lbt_event *event)
{
	struct lbt_slow_lane **place =
		&slow->lanes[lbt_slot_of(slow, event->pid, event->lane, event->tid)];
	struct lbt_slow_lane *lane;

	for (lane = *place; lane; lane = lane->next)
		if (lane->lane == event->lane &&
		    (event->lane ? lane->pid == event->pid : lane->tid == event->tid))
			break;
	if (lane && lane->pid != event->pid) { /* another process has the number by now */
		if (lbt_slow_end_lane(slow, lane, event->time))
			return NULL;
		lane->pid = event->pid;
	}
	if (lane)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->lane = event->lane;
	lane->pid = event->pid;
	lane->tid = event->tid;
	lane->next = *place;
	*place = lane;
	slow->lane_count++;
	return lane;
}

/* Does so with all lanes, or those of a process; lanes without calls are forgotten. */
static int lbt_each_lane(struct lbt_slow *slow, uint32_t pid, uint64_t now, int ends)
{
	for (size_t i = 0; i < slow->slot_count; i++) {
		struct lbt_slow_lane **place = &slow->lanes[i];

		while (*place) {
			struct lbt_slow_lane *lane = *place;

			if (pid && lane->pid != pid) {
				place = &lane->next;
				continue;
			}
			if (ends ? lbt_slow_end_lane(slow, lane, now) : lbt_slow_look(slow, lane, now))
				return -ENOMEM;
			if (lane->count) {
				place = &lane->next;
				continue;
			}
			*place = lane->next;
			lbt_free_lane(lane);
			slow->lane_count--;
		}
	}
	return 0;
}

struct lbt_slow *lbt_slow_new(uint64_t bound, uint64_t longest, size_t most)
{
	struct lbt_slow *slow = calloc(1, sizeof(*slow));

	if (!slow)
		return NULL;
	slow->bound = bound;
	slow->longest = longest;
	slow->most = most;
	slow->slot_count = LBT_SLOW_SLOTS;
	slow->lanes = calloc(slow->slot_count, sizeof(*slow->lanes));
	slow->callers = calloc(1, sizeof(*slow->callers));
	if (slow->lanes && slow->callers)
		return slow;
	free(slow->lanes);
	free(slow->callers);
	free(slow);
	return NULL;
}

void lbt_slow_free(struct lbt_slow *slow)
{
	if (!slow)
		return;
	for (size_t i = 0; i < slow->slot_count; i++)
		for (struct lbt_slow_lane *lane = slow->lanes[i], *next; lane; lane = next) {
			next = lane->next;
			lbt_free_lane(lane);
		}
	lbt_slow_forget(slow->callers);
	lbt_slow_forget(&slow->sent);
	free(slow->callers);
	free(slow->lanes);
	free(slow->probes);
	lbt_slow_forget(&slow->shown);
	free(slow);
}

int lbt_slow_learn(struct lbt_slow *slow, const struct lbt_slow_probe *probes, size_t count)
{
	struct lbt_slow_probe *known = malloc((count + 1) * sizeof(*known));

	if (!known)
		return -ENOMEM;
	memcpy(known, probes, count * sizeof(*known));
	free(slow->probes);
	slow->probes = known;
	slow->probe_count = count;
	return 0;
}

int lbt_slow_feed(struct lbt_slow *slow, const void *events, size_t count, const void *blobs)
{
	const char *blob = blobs;

	slow->shown.count = slow->shown.blob_size = slow->entries = 0;
	for (size_t i = 0; i < count; i++) {
		struct lbt_slow_lane *lane;
		struct lbt_event event;
		int kind, failed;

		memcpy(&event, (const char *)events + i * sizeof(event), sizeof(event));
		kind = event.kind & LBT_KIND_MASK;
		if (kind == LBT_EXEC && lbt_each_lane(slow, event.pid, event.time, 1))
			return -ENOMEM;
		if (kind == LBT_CALLERS) {
			if (lbt_slow_take_callers(slow, event.tid) ||
			    lbt_slow_keep(&slow->sent, &event, blob))
				return -ENOMEM;
			blob += event.blob;
			continue;
		}
		if (kind > LBT_LOSS && kind != LBT_UNWOUND) {
			if (lbt_slow_show(slow, &event, blob))
				return -ENOMEM;
			blob += event.blob;
			continue;
		}
		lane = lbt_lane_of(slow, &event);
		if (lbt_slow_take_callers(slow, event.tid))
			return -ENOMEM;
		failed = lane ? lbt_slow_step(slow, lane, &event, blob) : -ENOMEM;
		if (failed)
			return failed;
		blob += event.blob;
	}
	return 0;
}

int lbt_slow_tick(struct lbt_slow *slow, uint64_t now)
{
	return lbt_each_lane(slow, 0, now, 0);
}

int lbt_slow_end(struct lbt_slow *slow, uint64_t now)
{
	return lbt_each_lane(slow, 0, now, 1);
}
