"""A program whose debug information is made: a function that was inlined, and begins amid its
code."""

from __future__ import annotations

import subprocess
from pathlib import Path

ENTRIES = {
    "address": ("0x01", ".8byte entry"),
    "offset": ("0x0b", ".byte entry - low"),
    "outside": ("0x01", ".8byte after"),
}
"""``DW_AT_entry_pc``: its form (DWARF 5, section 7.5.6), and its value. One that is ``outside`` of
the copy's code says nothing."""

CALLS, TURNS = 5, 3
"""How often the program comes to the copy, and how often its loop turns then."""

SOURCE = """
    .file 1 "made.c"
    .text
    .globl work, main
    .type work, @function
work:
    .loc 1 4 0
    mov $TURNS, %ecx
low:
    .loc 1 1 0
    nop
    dec %ecx
    jnz low
entry:
    lea 1(%rdi), %rax
end:
    .loc 1 4 0
    ret
after:
    .size work, . - work
    .type main, @function
main:
    .loc 1 6 0
    push %rbx
    mov $CALLS, %ebx
again:
    call work
    dec %ebx
    jnz again
    xor %eax, %eax
    pop %rbx
    ret
    .size main, . - main
stop:
    .section .debug_abbrev, "", @progbits
    .uleb128 1, 0x11; .byte 1 # DW_TAG_compile_unit
    .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17, 0, 0 # name, low, high, stmt_list
    .uleb128 2, 0x2e; .byte 0 # DW_TAG_subprogram, of which there are copies
    .uleb128 0x03, 0x08, 0x3a, 0x0b, 0x3b, 0x0b, 0x20, 0x0b, 0, 0 # name, file, line, inline
    .uleb128 3, 0x2e; .byte 1 # DW_TAG_subprogram
    .uleb128 0x03, 0x08, 0x3a, 0x0b, 0x3b, 0x0b, 0x11, 0x01, 0x12, 0x06, 0, 0
    .uleb128 4, 0x1d; .byte 0 # DW_TAG_inlined_subroutine
    .uleb128 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x52, FORM, 0, 0 # origin, low, high, entry
    .byte 0
    .section .debug_info, "", @progbits
unit:
    .4byte over - . - 4
    .2byte 4
    .4byte .debug_abbrev
    .byte 8
    .uleb128 1
    .asciz "made.c"
    .8byte work
    .4byte stop - work
    .4byte .debug_line
origin:
    .uleb128 2
    .asciz "copied"
    .byte 1, 1, 1
    .uleb128 3
    .asciz "work"
    .byte 1, 4
    .8byte work
    .4byte after - work
    .uleb128 4
    .4byte origin - unit
    .8byte low
    .4byte end - low
    VALUE
    .byte 0, 0
over:
    .section .debug_line, "", @progbits
    .section .note.GNU-stack, "", @progbits
"""


def build_entry(directory: Path, entry: str) -> str:
    """Build the program with one of `ENTRIES`, and return its path."""
    form, value = ENTRIES[entry]
    words = {"FORM": form, "VALUE": value, "CALLS": str(CALLS), "TURNS": str(TURNS)}
    source = SOURCE
    for word, meant in words.items():
        source = source.replace(word, meant)
    (directory / "made.s").write_text(source)
    made = str(directory / "made")
    subprocess.run(["gcc", directory / "made.s", "-o", made], check=True)
    return made
