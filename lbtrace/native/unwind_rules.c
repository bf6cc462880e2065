/*
 * From what instructions of .eh_frame say to the rules that BPF programs apply. Operations: DWARF 5,
 * section 7.7.1.
 */
#include "unwind_state.h"

/* An expression that is a register plus a number: DW_OP_bregN; its rest is left. */
static int based(struct reader *from, unsigned reg, int64_t *offset)
{
	if (from->at >= from->end || *from->at != 0x70 + reg)
		return 0;
	from->at++;
	*offset = sleb(from);
	return !from->failed;
}

static int is_small(int64_t number)
{
	return number == (int32_t)number;
}

/* The same as a word in memory there, plus a number: DW_OP_deref, DW_OP_plus_uconst. */
static int fetched(const unsigned char *expression, size_t size, unsigned reg, int64_t *offset,
		   int64_t *plus)
{
	struct reader from = { expression, expression + size, 0 };

	if (!based(&from, reg, offset) || fixed(&from, 1) != 0x06)
		return 0;
	*plus = 0;
	if (from.at < from.end && *from.at == 0x23) {
		from.at++;
		*plus = uleb(&from);
	}
	return !from.failed && from.at == from.end && is_small(*offset) && is_small(*plus);
}

/* What the linker writes of its stubs: rsp + 8 + ((rip & 15) >= N) * 8. */
static int is_stub(const unsigned char *expression, size_t size, int32_t *from)
{
	static const unsigned char usual[] = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a,
					       0x00, 0x2a, 0x33, 0x24, 0x22 };

	if (size != sizeof(usual) || memcmp(expression, usual, 6) ||
	    memcmp(expression + 7, usual + 7, 4) || expression[6] < 0x30 || expression[6] > 0x3f)
		return 0;
	*from = expression[6] - 0x30;
	return 1;
}

static int placed_at(const struct place *place, unsigned reg, int64_t *offset)
{
	struct reader from = { place->expression, place->expression + place->size, 0 };

	return place->how == EXPRESSION && based(&from, reg, offset) && from.at == from.end &&
	       is_small(*offset);
}

struct lbt_unwind_rule lbt_rule_of(const struct state *state, int signal)
{
	struct lbt_unwind_rule rule = { 0 };
	int64_t offset = 0, plus = 0, at = 0;

	if (state->ip.how == UNDEFINED)
		return (struct lbt_unwind_rule){ .kind = LBT_RULE_END };
	if (signal && state->expression && fetched(state->expression, state->size, RSP, &offset, &plus) &&
	    !plus && placed_at(&state->ip, RSP, &at) && placed_at(&state->bp, RSP, &plus))
		return (struct lbt_unwind_rule){ .kind = LBT_RULE_SIGNAL, .offset = at,
						 .second = offset, .bp_offset = plus };
	rule.kind = LBT_RULE_UNKNOWN;
	if (state->ip.how != AT_CFA || state->ip.offset != -8)
		return rule;
	switch (state->bp.how) {
	case SAME: rule.bp_kind = LBT_BP_SAME; break;
	case UNDEFINED: rule.bp_kind = LBT_BP_UNDEFINED; break;
	case AT_CFA:
		rule.bp_kind = LBT_BP_SAVED;
		rule.bp_offset = state->bp.offset;
		break;
	case EXPRESSION:
		if (!placed_at(&state->bp, RBP, &at))
			return (struct lbt_unwind_rule){ .kind = LBT_RULE_UNKNOWN };
		rule.bp_kind = LBT_BP_AT_BP;
		rule.bp_offset = at;
		break;
	case OTHER: return (struct lbt_unwind_rule){ .kind = LBT_RULE_UNKNOWN };
	}
	if (!state->expression) {
		if (!is_small(state->cfa_offset) || state->cfa_register > RIP)
			return (struct lbt_unwind_rule){ .kind = LBT_RULE_UNKNOWN };
		rule.offset = state->cfa_offset;
		rule.kind = state->cfa_register == RSP   ? LBT_RULE_SP
			    : state->cfa_register == RBP ? LBT_RULE_BP
							 : LBT_RULE_REGISTER;
		rule.reg = rule.kind == LBT_RULE_REGISTER ? state->cfa_register : 0;
	} else if (is_stub(state->expression, state->size, &rule.second)) {
		rule.kind = LBT_RULE_PLT;
		rule.offset = 8;
	} else if (fetched(state->expression, state->size, RSP, &offset, &plus)) {
		rule.kind = LBT_RULE_AT_SP;
		rule.offset = offset;
		rule.second = plus;
	} else if (fetched(state->expression, state->size, RBP, &offset, &plus)) {
		rule.kind = LBT_RULE_AT_BP;
		rule.offset = offset;
		rule.second = plus;
	} else {
		return (struct lbt_unwind_rule){ .kind = LBT_RULE_UNKNOWN };
	}
	return rule;
}
