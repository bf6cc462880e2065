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

void lbt_slow_forget(struct lbt_slow_events *kept)
{
	free(kept->events);
	free(kept->blobs);
	memset(kept, 0, sizeof(*kept));
}

int lbt_slow_show(struct lbt_slow *slow, const struct lbt_event *event, const char *blob)
{
	if (lbt_reserve(&slow->events, &slow->event_capacity,
			(slow->count + 1) * sizeof(*event), 1) ||
	    lbt_reserve(&slow->blobs, &slow->blob_capacity, slow->blob_size + event->blob + 1, 1))
		return -ENOMEM;
	memcpy(slow->events + slow->count++ * sizeof(*event), event, sizeof(*event));
	memcpy(slow->blobs + slow->blob_size, blob, event->blob);
	slow->blob_size += event->blob;
	slow->entries += (event->kind & LBT_KIND_MASK) == LBT_OPEN;
	return 0;
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
