"""Random C programs with markers on nops of 5 bytes, in functions that use their stacks.

Each function computes from its arguments with variables that must be in memory. `poison` lets the
markers of some functions overwrite the red zone instead.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

HEAD = r"""
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#define BARRIER __asm__ volatile("" : : : "memory")
#define SPILL __asm__ volatile("" : : : "memory", "rbx", "r12", "r13", "r14", "r15", "rsi", "rdi", \
                               "r8", "r9", "r10", "r11", "rcx", "rdx")
#define KEPT(variable) __asm__ volatile("" : "+m"(variable))
#define NOTE(name)                                                               \
    ".pushsection .note.stapsdt, \"?\", \"note\"\n"                              \
    ".balign 4\n .4byte 992f - 991f, 994f - 993f, 3\n"                           \
    "991: .asciz \"stapsdt\"\n 992: .balign 4\n"                                 \
    "993: .8byte 990b, _.stapsdt.base, 0\n"                                      \
    ".asciz \"zone\", \"" name "\", \"\"\n"                                      \
    "994: .balign 4\n .popsection\n .ifndef _.stapsdt.base\n"                    \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
    ".weak _.stapsdt.base\n .hidden _.stapsdt.base\n"                            \
    "_.stapsdt.base: .space 1\n .popsection\n .endif\n"
#define LONG_NOP(name) __asm__ volatile("990: .byte 0x0f, 0x1f, 0x44, 0, 0\n" NOTE(name))
#define POISON(name) __asm__ volatile("990:\n .set offset, 8\n .rept 16\n" \
    "movq $0x5a5a5a5a, -offset(%%rsp)\n .set offset, offset + 8\n .endr\n" NOTE(name) ::)
static volatile long zero;
__attribute__((noinline, noclone)) static long other(long a, long *values)
{
    for (int i = 0; i < 20; i++)
        zero = zero * a & 0;
    if (values)
        values[0] += a;
    return a * 3 + zero;
}
"""

MAIN = r"""
int main(int count, char **words)
{
    int only = count > 1 ? atoi(words[1]) : -1;
    for (long round = 1; round < 6; round++) {
"""


def source(functions: int) -> str:
    """Return a program that calls ``functions`` of them, or only the one whose number it is given,
    and prints what each has returned and how often its marker was passed."""
    made = [HEAD]
    for number in range(functions):
        made.append(
            f'#ifndef POISON_{number}\n#define MARK_{number} LONG_NOP("f{number}")\n'
            f'#else\n#define MARK_{number} POISON("f{number}")\n#endif\n{_function(number)}'
        )
    calls = "".join(
        f"        if (only < 0 || only == {n}) {{\n"
        f'            printf("f{n} %ld", f{n}(round, {random.randrange(100)}));\n'
        f'            printf(" %d\\n", passed[{n}]);\n        }}\n'
        for n in range(functions)
    )
    made.append(f"{MAIN}{calls}    }}\n}}\n")
    return f"static int passed[{functions}];\n" + "".join(made)


def poison(numbers: Sequence[int]) -> list[str]:
    """Return what a compiler is told to poison the red zones of some functions."""
    return [f"-DPOISON_{number}" for number in numbers]


def _function(number: int) -> str:
    calls = random.random() < 0.4
    lines = [f"    passed[{number}]++;"]
    results = ["a", "b"]
    size = random.choice((2, 3, 6, 12, 15, 20, 40))
    kind = random.choice(("long", "int", "short", "double", "char"))
    if random.random() < 0.6:
        aligned = random.choice(("", "", "", "__attribute__((aligned(64))) "))
        lines += [
            f"    {aligned}{kind} v[{size}];",
            f"    for (int i = 0; i < {size}; i++) v[i] = ({kind})(a * i + b);",
            "    KEPT(v);",
        ]
        results.append(f"(long)v[{random.randrange(size)}]")
        if random.random() < 0.5:
            results.append(f"(long)v[(unsigned long)b % {size}]")
    for each in range(random.choice((0, 0, 1, 3, 9))):
        lines.append(f"    volatile long w{each} = a * {each + 2} + b;")
        results.append(f"w{each}")
    if random.random() < 0.15:
        lines += ["    long *p = alloca((a & 7) * 16 + 16);", "    p[0] = a; p[1] = b; KEPT(*p);"]
        results.append("p[0] + p[1]")
    if random.random() < 0.2:
        lines += [
            '    struct { long x; double y; char text[9]; } s = {a, b, "abc"};',
            "    KEPT(s);",
        ]
        results.append("s.x + (long)s.y + s.text[1]")
    if calls and random.random() < 0.5:
        lines.append(f"    a += other(b, {random.choice(('0', '&b'))});")
    mark = f"MARK_{number};"
    if random.random() < 0.3:
        inner = f"{mark} BARRIER;" + (
            f" passed[{number}]++; {mark}" if random.random() < 0.3 else ""
        )
        lines.append(f"    for (int i = 0; i < 3; i++) {{ a += i; {inner} passed[{number}]++; }}")
        lines.append(f"    passed[{number}]--;")
    else:
        lines.append(f"    {random.choice(('SPILL;', 'BARRIER;', ''))} {mark} BARRIER;")
    if calls and random.random() < 0.5:
        lines.append("    a += other(a, 0);")
    result = " + ".join(results)
    if not calls and random.random() < 0.2:
        end = f"    return other({result}, 0);"
    else:
        end = f"    return {result};"
    head = f"__attribute__((noinline, noclone)) static long f{number}(long a, long b)"
    return "\n".join([head, "{", *lines, end, "}", ""])
