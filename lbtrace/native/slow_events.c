#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "slow_state.h"

int lbt_slow_keep(struct lbt_slow_events *kept, const struct lbt_event *event,
		  const char *blob)
{
	if (lbt_reserve(&kept->events, &kept->event_capacity,
			(kept->count + 1) * sizeof(*event), 1) ||
	    lbt_reserve(&kept->blobs, &kept->blob_capacity, kept->blob_size + event->blob + 1, 1))
		return -ENOMEM;
	memcpy(kept->events + kept->count++ * sizeof(*event), event, sizeof(*event));
	memcpy(kept->blobs + kept->blob_size, blob, event->blob);
	kept->blob_size += event->blob;
	return 0;
}

int lbt_slow_keep_whole(struct lbt_slow *slow, struct lbt_slow_events *kept,
			const struct lbt_event *event, const char *blob)
{
	struct lbt_slow_events *callers = slow->callers;

	if (event == slow->stepped && callers->count &&
	    lbt_slow_keep(kept, (struct lbt_event *)callers->events, callers->blobs))
		return -ENOMEM;
	return lbt_slow_keep(kept, event, blob);
}

void lbt_slow_forget(struct lbt_slow_events *kept)
{
	free(kept->events);
	free(kept->blobs);
	memset(kept, 0, sizeof(*kept));
}

int lbt_slow_show(struct lbt_slow *slow, const struct lbt_event *event, const char *blob)
{
	if (event == slow->stepped && lbt_slow_show_all(slow, slow->callers))
		return -ENOMEM;
	slow->entries += (event->kind & LBT_KIND_MASK) == LBT_OPEN;
	return lbt_slow_keep(&slow->shown, event, blob);
}

int lbt_slow_show_all(struct lbt_slow *slow, const struct lbt_slow_events *kept)
{
	const char *blob = kept->blobs;

	for (size_t i = 0; i < kept->count; i++) {
		struct lbt_event event;

		memcpy(&event, kept->events + i * sizeof(event), sizeof(event));
		if (lbt_slow_show(slow, &event, blob))
			return -ENOMEM;
		blob += event.blob;
	}
	return 0;
}

int lbt_slow_show_left(struct lbt_slow *slow, const struct lbt_slow_lane *lane,
			 const struct lbt_slow_call *call, const struct lbt_event *event)
{
	struct lbt_event left = { .time = event->time, .lane = lane->lane, .probe = call->probe,
				  .pid = lane->pid, .tid = event->tid, .kind = LBT_UNWOUND };

	left.frame = call->order << 1;
	left.kind |= call->order >> 63 ? 0 : LBT_ON_ALTSTACK;
	return lbt_slow_show(slow, &left, "");
}

int lbt_slow_note_callers(struct lbt_slow *slow, const struct lbt_event *event, const char *blob)
{
	slow->callers->count = slow->callers->blob_size = 0;
	return lbt_slow_keep(slow->callers, event, blob);
}

int lbt_slow_take_callers(struct lbt_slow *slow, uint32_t tid)
{
	struct lbt_slow_events *sent = &slow->sent;
	char *blob = sent->blobs;

	for (size_t i = 0; i < sent->count; i++) {
		char *place = sent->events + i * sizeof(struct lbt_event);
		struct lbt_event event;

		memcpy(&event, place, sizeof(event));
		if (event.tid == tid) {
			if (lbt_slow_note_callers(slow, &event, blob))
				return -ENOMEM;
			sent->blob_size -= event.blob;
			sent->count--;
			memmove(place, place + sizeof(event), (sent->count - i) * sizeof(event));
			memmove(blob, blob + event.blob,
				sent->blob_size - (size_t)(blob - sent->blobs));
			return 0;
		}
		blob += event.blob;
	}
	return 0;
}

int lbt_slow_step(struct lbt_slow *slow, struct lbt_slow_lane *lane,
		  const struct lbt_event *event, const char *blob)
{
	const struct lbt_event *callers = (struct lbt_event *)slow->callers->events;
	int failed;

	if (slow->callers->count && (callers->tid != event->tid || callers->time != event->time))
		slow->callers->count = slow->callers->blob_size = 0; /* that event was lost */
	slow->stepped = event;
	failed = lbt_slow_step_over(slow, lane, event, blob);
	slow->stepped = NULL;
	slow->callers->count = slow->callers->blob_size = 0;
	return failed;
}
