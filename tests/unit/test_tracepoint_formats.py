"""What formats of other kernels say of tracepoints than the one that runs here."""

from __future__ import annotations

from lbtrace.tracepoints import parse_format

FORMAT = """\
name: something
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:char comm[TASK_COMM_LEN];\toffset:8;\tsize:16;\tsigned:1;
\tfield:__rel_loc char[] text;\toffset:24;\tsize:4;\tsigned:1;
\tfield:unsigned int kind;\toffset:28;\tsize:4;\tsigned:0;
\tfield:unsigned long where;\toffset:32;\tsize:8;\tsigned:0;
\tfield:long state;\toffset:40;\tsize:8;\tsigned:1;
\tfield:__data_loc u64[] many;\toffset:48;\tsize:4;\tsigned:0;
\tfield:dev_t dev;\toffset:52;\tsize:4;\tsigned:0;

print fmt: "%s, (%d%%) %s at %pS %s%s", REC->comm, 3, __print_symbolic(REC->kind, { 1UL << 2, \
"a, b" }, { NOT_RESOLVED, "c" }, { (gfp_t)(0x8U|1), "d" ")" }), (void *)REC->where, (REC->state & \
(0xff)) ? __print_flags(REC->state & (0xff), "|", { 1, "S" }, { 2, "D" }) : "R", REC->state & \
(((0xff) + 1)) ? "+" : ""
"""


def test_a_format() -> None:
    format = parse_format(FORMAT)
    assert format.number == 7
    comm, text, kind, where, state, many, dev = format.fields
    assert (comm.type.name, comm.type.size) == ("char[TASK_COMM_LEN]", 16)
    assert text.place.words[0].offset == 28  # type: ignore[union-attr]
    assert kind.type.constants() == ((4, "a, b"), (9, "d)"))
    assert where.type.is_address
    assert state.type.constants() == ((1, "S"), (2, "D"), (0, "R"), (256, "R+"))
    assert many.place.reason == "an array of varying length"
    assert dev.type.decoder()(8 << 20 | 17).text() == "8,17"  # as ls -l shows it


def test_numbers_that_are_not_computed() -> None:
    for written in ("(1", "1 << 1 << 99999999", "__import__('os')", "2 ** 99", "1 / 0", "1" * 5000):
        broken = FORMAT.replace("1UL << 2", written)
        assert parse_format(broken).number == 7
