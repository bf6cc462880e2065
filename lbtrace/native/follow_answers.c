/* What was asked while code is followed: see follow.h. */
#include "follow_state.h"

int lbt_follow_more(struct lbt_follow *follow, uint64_t address)
{
	return graph_node(&follow->graph, address, 0) != NO_NODE;
}

void lbt_answer_name(struct lbt_follow *follow, uint32_t number, int meaning, uint64_t address)
{
	if (number < follow->file.named_count)
		follow->meanings[number] = (struct meaning){(uint8_t)meaning, address};
}

int lbt_answer_extent(struct lbt_follow *follow, uint64_t address, uint64_t start, uint64_t end,
		      int cold)
{
	if (lbt_reserve((char **)&follow->extents, &follow->extent_capacity,
			follow->extent_count + 1, sizeof(*follow->extents)))
		return 0;
	follow->extents[follow->extent_count++] = (struct extent){address, start, end, cold};
	return 1;
}

void lbt_answer_end(struct lbt_follow *follow, uint64_t end, int alone)
{
	follow->has_room = 1;
	follow->room_end = end;
	follow->alone = alone;
}

void lbt_answer_reach(struct lbt_follow *follow, const uint64_t *calls, size_t call_count,
		      const uint64_t *call_slots, size_t call_slot_count, const uint64_t *jumps,
		      const int32_t *depths, size_t jump_count, const uint64_t *jump_slots,
		      size_t jump_slot_count, int doubt, int keeps, int walks, int unread,
		      int jumps_away)
{
	follow->has_reached = 1;
	follow->reached = (struct reached){
		.calls = calls, .call_slots = call_slots, .jumps = jumps, .jump_slots = jump_slots,
		.depths = depths, .call_count = call_count, .call_slot_count = call_slot_count,
		.jump_count = jump_count, .jump_slot_count = jump_slot_count,
		.doubt = {doubt ? LBT_WHY_DECODED : 0, follow->next},
		.keeps = keeps, .walks = walks, .unread = unread,
		.jumps_away = jumps_away,
	};
}

void lbt_answer_labels(struct lbt_follow *follow, const uint64_t *labels, size_t count, int32_t depth)
{
	follow->reached.labels = labels;
	follow->reached.label_count = count;
	follow->reached.label_depth = depth;
}

void lbt_answer_handed(struct lbt_follow *follow, const struct lbt_handed *handed,
		       size_t handed_count, const struct lbt_access *accesses, size_t access_count)
{
	follow->reached.handed = handed;
	follow->reached.handed_count = handed_count;
	follow->reached.accesses = accesses;
	follow->reached.access_count = access_count;
}
