"""Assembly that reads, or changes, the return address of its own call by way of a copy of the stack
pointer, made at random: a program that prints what it read."""

from __future__ import annotations

from random import Random

FREE = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
LOW = {"rax": "eax", "rcx": "ecx", "rdx": "edx", "rsi": "esi", "rdi": "edi"}
LOW_BYTE = {"rax": "al", "rcx": "cl", "rdx": "dl", "rsi": "sil", "rdi": "dil"}
USES = (
    *("read", "pushed", "indexed", "string", "halves", "vector", "wide", "added", "exchanged"),
    *("passed", "stored away", "repeated", "changed"),
    *("computed", "scaled", "summed", "subtracted", "led to"),
    *("shifted", "counted", "multiplied", "lowest byte", "moved by"),
)
"""What is done with the address; ``changed`` continues after another instruction than the call."""

PROLOGUES = ("none", "room", "saved", "frame", "entered")
TAKEN = ("move", "lea", "pushed", "spilled", "exchanged", "conditional")
MOVES = ("move", "add", "sub", "lea", "pushed", "spilled", "exchanged", "aligned", "stepped")

HEAD = """
.data
away: .quad 0
.text
helper: mov (%rdi), %rax; ret
fetch: mov away(%rip), %rax; mov (%rax), %rax; ret
"""
FUNCTION = """
.p2align 4
.globl {name}
.type {name}, @function
{name}:
{body}
ret
.size {name}, . - {name}
.globl call_{name}
.type call_{name}, @function
call_{name}:
sub $8, %rsp
call {name}
{after}
add $8, %rsp
ret
.size call_{name}, . - call_{name}
"""


def variant(choose: Random, use: str) -> str:
    """The body of a function that finds its return address in rax, all but its ``ret``."""
    prologue = choose.choice(PROLOGUES)
    room = 8 * choose.randrange(1, 20)
    begin, depth, end = {
        "none": ("", 0, ""),
        "room": (f"sub ${room}, %rsp", room, f"add ${room}, %rsp"),
        "saved": ("push %rbx; push %r12", 16, "pop %r12; pop %rbx"),
        "frame": (f"push %rbp; mov %rsp, %rbp; sub ${room}, %rsp", 8 + room, "leave"),
        "entered": (f"enter ${room}, $0", 8 + room, "leave"),
    }[prologue]
    lines = [begin, "sub $128, %rsp"]
    depth += 128
    own = choose.choice(("rsp", "rbp")) if prologue in ("frame", "entered") else "rsp"
    at = depth if own == "rsp" else 8
    register = choose.choice(FREE)
    step = 8 * choose.randrange(-4, 12)
    way = choose.choice(TAKEN)
    slot = 8 * choose.randrange(1, 12)
    other = choose.choice([r for r in FREE if r != register])
    lines.append(
        {
            "move": f"mov %{own}, %{register}",
            "lea": f"lea {step}(%{own}), %{register}",
            "pushed": f"push %{own}; pop %{register}",
            "spilled": f"mov %{own}, {slot}(%rsp); mov {slot}(%rsp), %{register}",
            "exchanged": f"mov %{own}, %{other}; xchg %{other}, %{register}",
            "conditional": f"cmp %rsp, %rsp; cmove %{own}, %{register}",
        }[way]
    )
    at -= step if way == "lea" else 0
    for _ in range(choose.randrange(4)):
        way = choose.choice(MOVES)
        step = 8 * choose.randrange(-6, 12)
        other = choose.choice([r for r in FREE if r != register])
        lines.append(
            {
                "move": f"mov %{register}, %{other}",
                "add": f"add ${step}, %{register}",
                "sub": f"sub ${step}, %{register}",
                "lea": f"lea {step}(%{register}), %{other}",
                "pushed": f"push %{register}; pop %{other}",
                "spilled": f"mov %{register}, {slot}(%rsp); mov {slot}(%rsp), %{other}",
                "exchanged": f"xchg %{register}, %{other}",
                "aligned": f"and $-8, %{register}",
                "stepped": f"inc %{register}; dec %{register}",
            }[way]
        )
        at -= step if way in ("add", "lea") else -step if way == "sub" else 0
        if way in ("move", "lea", "pushed", "spilled", "exchanged"):
            register = other
    zero = choose.choice([r for r in LOW if r not in (register, "rax")])
    lines.append(
        {
            "read": f"mov {at}(%{register}), %rax",
            "pushed": f"push {at}(%{register}); pop %rax",
            "indexed": f"xor %{LOW[zero]}, %{LOW[zero]}; mov {at}(%{register},%{zero},8), %rax",
            "string": f"lea {at}(%{register}), %rsi; lodsq",
            "halves": f"mov {at + 4}(%{register}), %{LOW[zero]}; mov {at}(%{register}), %eax;"
            f" shl $32, %{zero}; or %{zero}, %rax",
            "vector": f"movq {at}(%{register}), %xmm0; movq %xmm0, %rax",
            "wide": f"movups {at - 8}(%{register}), %xmm0; psrldq $8, %xmm0; movq %xmm0, %rax",
            "added": f"mov $0, %{LOW[zero]}; add {at}(%{register}), %{zero}; mov %{zero}, %rax",
            "exchanged": f"xor %{LOW[zero]}, %{LOW[zero]}; xchg %{zero}, {at}(%{register});"
            f" mov %{zero}, {at}(%{register}); mov %{zero}, %rax",
            "passed": f"lea {at}(%{register}), %rdi; call helper",
            "stored away": f"lea {at}(%{register}), %{zero}; mov %{zero}, away(%rip); call fetch",
            "repeated": f"lea {at}(%{register}), %rsi; mov %rsp, %rdi; mov $1, %ecx;"
            " rep movsq; mov (%rsp), %rax",
            "computed": f"mov ${at}, %{zero}; mov (%{register},%{zero}), %rax",
            "scaled": f"mov ${at // 8}, %{zero}; mov {at % 8}(%{register},%{zero},8), %rax",
            "summed": f"mov ${at}, %{zero}; add %{register}, %{zero}; mov (%{zero}), %rax",
            "subtracted": f"mov ${-at}, %{zero}; sub %{zero}, %{register}; mov (%{register}), %rax",
            "led to": f"mov ${at}, %{zero}; lea (%{register},%{zero}), %rax; mov (%rax), %rax",
            "shifted": f"mov ${at // 8}, %{zero}; shl $3, %{zero};"
            f" mov {at % 8}(%{register},%{zero}), %rax",
            "counted": f"xor %{LOW[zero]}, %{LOW[zero]}; add ${at + 1}, %{zero}; dec %{zero};"
            f" mov (%{register},%{zero}), %rax",
            "multiplied": f"mov $8, %{LOW[zero]}; imul ${at // 8}, %{zero}, %{zero};"
            f" mov {at % 8}(%{zero},%{register}), %rax",
            "lowest byte": f"xor %{LOW[zero]}, %{LOW[zero]}; mov $8, %{LOW_BYTE[zero]};"
            f" mov {at - 8}(%{register},%{zero}), %rax",
            "moved by": f"mov $40, %{LOW[zero]}; sub %{zero}, %rsp; mov {depth + 40}(%rsp), %rax;"
            f" add %{zero}, %rsp",
            "changed": f"addq $5, {at}(%{register}); lea call_NAME(%rip), %rax",
        }[use]
    )
    return "\n".join([*lines, "add $128, %rsp", end])


DATA = (
    *(".byte 0x48", ".byte 0x0f", ".byte 0x06", ".byte 0xe8", ".byte 0x48, 0xb8", ".byte 0xf0"),
    *(".byte 0xf0, 0x90", ".byte 0xe9, 0xff", ".byte 0x66, 0x66", ".byte 0xff, 0xff"),
    *(".long 0x3f800000", ".quad 0x3ff0000000000000", '.asciz "abc"', ".zero 40", ""),
)
"""What stands before code that is jumped to: some of it swallows that code's first instructions."""

SURROUNDINGS = {
    "computed": "{head} lea 2f(%rip), %r10; jmp *%r10; {data}; 2: {body}; ret; {size}",
    "computed beyond": "{head} lea 2f(%rip), %r10; mov %rdi, %r9; and $0, %r9d; add %r9, %r10;"
    " jmp *%r10; {data}; {size}; 2: {body}; ret",
    "back": "{other}; 2: {body}; ret; {data}; {head} mov %rdi, %rdx; jmp 2b; {size}",
    "landing": "{head} jmp 3f; 2: {body}; ret; {data}; 1: jmp 2b; {other}; 3: jmp 1b; {size}",
    "overlapped": "{head} cmp %rdi, %rdi; jz 2f; .byte 0x48, 0xc7, 0x80; 2: {body}; ret; {size}",
}
"""Code before and after a read, with constants; the function is at ``head``."""


def surrounded(seed: int, count: int) -> tuple[str, list[str]]:
    """Assembly of functions that read their return addresses in unusual surroundings, or by a
    helper that gets an address on the stack."""
    choose = Random(seed)
    names, text = [], [".text; .globl first; first: nop"]
    for number in range(count):
        name = f"s{number}"
        kind = choose.choice([*SURROUNDINGS, "helper"])
        size, head = f".size {name}, . - {name}", f".type {name}, @function; {name}:"
        data, other = choose.choice(DATA), choose.choice(DATA)
        if kind == "helper":
            pointer, step = choose.choice(("rdi", "rsi", "rdx", "rcx", "r8", "r9")), 8 * number
            text.append(
                f"h{number}: jmp 5f; {data}; 5: mov {step + 8}(%{pointer}), %rax; ret\n"
                f"{head} sub ${step + 8}, %rsp; mov %rsp, %{pointer}; call h{number};"
                f" add ${step + 8}, %rsp; ret; {size}"
            )
        else:
            use = choose.choice([u for u in USES if u != "changed"])
            body = variant(choose, use)
            form = SURROUNDINGS[kind]
            text.append(form.format(head=head, size=size, body=body, data=data, other=other))
        names.append(name)
    return "\n".join(text).replace(";;", ";"), names


def program(seed: int, count: int) -> tuple[str, str, list[str]]:
    """Assembly and the C code of its main function, and the functions that look at their return
    addresses."""
    choose = Random(seed)
    names = [f"f{number}" for number in range(count)]
    text, calls = [HEAD], []
    for number, name in enumerate(names):
        use = USES[number % len(USES)]
        body = variant(choose, use).replace("NAME", name)
        after = "mov $77, %eax" if use == "changed" else "nop"
        text.append(FUNCTION.format(name=name, body=body, after=after))
        calls.append(f'long call_{name}(void); show("{name}", call_{name}() - (long)call_{name});')
    text.append('.section .note.GNU-stack,"",@progbits\n')
    main = (
        "#include <stdio.h>\nstatic void show(const char *name, long value)"
        '{ printf("%s %ld\\n", name, value); }\n'
        "int main(void) {" + "\n".join(calls) + "return 0; }\n"
    )
    return "\n".join(text), main, names
