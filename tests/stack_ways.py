"""Ways in which assembly takes up the stack at rsi: instructions, separated by semicolons. Seven
registers and a place to go on wait there; rax and rcx are free, and rbp is saved."""

WAYS = {
    "move": "mov %rsi, %rsp",
    "saved": "mov %rsi, %rbx; mov %rbx, %rsp",
    "add": "mov %rsi, %rax; sub %rsp, %rax; add %rax, %rsp",
    "memory": "mov %rsi, %rax; sub %rsp, %rax; mov %rax, -8(%rsi); add -8(%rsi), %rsp",
    "sub": "mov %rsp, %rax; sub %rsi, %rax; sub %rax, %rsp",
    "cmov": "test %rsi, %rsi; cmovne %rsi, %rsp",
    "lea": "lea (%rsi), %rsp",
    "index": "xor %eax, %eax; lea (%rsi,%rax,8), %rsp",
    "pop": "push %rsi; pop %rsp",
    "xadd": "mov %rsi, %rax; sub %rsp, %rax; xadd %rax, %rsp",
    "xchg": "mov %rsi, %rax; xchg %rax, %rsp",
    "extended": "mov %rsi, %r12; mov %r12, %rsp",
    "based": "mov %rsi, -8(%rsi); mov %rsi, %r13; mov -8(%r13), %rsp",
    "cell": ".local cell; .comm cell, 8; mov %rsi, cell(%rip); mov cell(%rip), %rsp",
    "pointed": ".local cell; .comm cell, 8; lea cell(%rip), %rax; mov %rsi, (%rax);"
    " mov (%rax), %rsp",
    "xchg cell": ".local cell; .comm cell, 8; mov %rsi, cell(%rip); xchg cell(%rip), %rsp",
    "xchg memory": "mov %rsi, -8(%rsi); xchg -8(%rsi), %rsp",
    "xchg below": "mov %rsi, -512(%rsp); lea -512(%rsp), %rdx; xchg (%rdx), %rsp",
    "xchg frame": "mov %rsi, %rbp; xchg %rbp, %rsp",
    "xchg extended": "mov %rsi, %r12; xchg %r12, %rsp",
    "leave": "lea -8(%rsi), %rbp; leave",
    "frame": "mov %rsi, %rbp; mov %rbp, %rsp",
    "interrupt": "mov %ss, %eax; mov %cs, %ecx; push %rax; push %rsi; pushfq; push %rcx;"
    " lea 6f(%rip), %rcx; push %rcx; iretq; 6: nop",
    "multiply": "imul $1, %rsi, %rsp",
    "or": "xor %esp, %esp; or %rsi, %rsp",
    "xor": "mov %rsp, %rax; xor %rsi, %rax; xor %rax, %rsp",
    "compare": "mov %rsp, %rax; cmpxchg %rsi, %rsp",
    "bswap": "bswap %rsi; mov %rsi, %rsp; bswap %rsp",
    "vector": "movq %rsi, %xmm0; movq %xmm0, %rsp",
    "rotate": "rorx $0, %rsi, %rsp",
    "movbe": "bswap %rsi; mov %rsi, -16(%rsp); movbe -16(%rsp), %rsp",
}

WAYS_BY_THE_FRAME = {
    "pushed": "push %rsi; mov (%rsp), %rsp",
    "stored": "mov %rsi, -16(%rsp); mov -16(%rsp), %rsp",
    "reloaded": "mov %rsi, -24(%rsp); mov -24(%rsp), %rax; mov %rax, %rsp",
    "pointed into": "lea -512(%rsp), %rcx; mov %rsi, (%rcx); mov (%rcx), %rsp",
    "pointed by saved": "lea -512(%rsp), %rbx; mov %rsi, 8(%rbx); mov 8(%rbx), %rsp",
    "copied from": "lea -512(%rsp), %rcx; mov %rsi, (%rcx); mov (%rcx), %rax; mov %rax, %rsp",
}
"""The same, by way of the frame that is left."""

WAYS_PAST_CONSTANTS = {
    "back": "jmp 6f; 5: mov %rsi, %rsp; jmp 7f; 6: jmp 5b; 7: nop",
    "to and fro": "jmp 6f; .byte 0xe9, 0x48; 5: jmp 7f; 6: mov %rsi, %rsp; jmp 5b; 7: nop",
    "quad": "jmp 6f; .quad 0x48; 6: mov %rsi, %rsp",
    "prefix": "jmp 6f; .byte 0xf0; 6: mov %rsi, %rsp",
    "immediate": "jmp 6f; .byte 0x48, 0xb8; 6: lea (%rsi), %rsp",
    "two quads": "jmp 6f; .quad 0x1122334455667788; .quad 3; 6: mov %rsi, %rsp; jmp 7f;"
    " .quad 0; 7: nop",
    "computed": "lea 6f(%rip), %rax; jmp *%rax; .byte 0x48, 0xb8; 6: mov %rsi, %rsp",
}
"""The same, where instructions do not follow each other from the function's start on."""

ALL_WAYS = WAYS | WAYS_BY_THE_FRAME | WAYS_PAST_CONSTANTS

SHIFTS = frozenset({"add", "memory", "sub", "xadd"})
"""Those that look like room for an array: only what leaves straight after them is known."""

_POPS = "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret"
GOES_ON = {
    "straight": _POPS,
    "jump": "jmp back",
    "branch": f"test %rsp, %rsp; jz 1f; nop; 1: {_POPS}",
    "call": f"call 2f; jmp 3f; 2: ret; 3: {_POPS}",
    "computed": "lea back(%rip), %rax; jmp *%rax",
}
"""How it leads on to where it leaves; ``back`` has the same pops."""

LEAVES = {
    "jump": "mov 48(%rdi), %rsp; jmp *56(%rdi)",
    "register": "mov 48(%rdi), %rsp; mov 56(%rdi), %rdx; jmp *%rdx",
    "return": "mov 48(%rdi), %rsp; push 56(%rdi); ret",
    "branch": "mov 48(%rdi), %rsp; test %eax, %eax; jnz 1f; inc %eax; 1: jmp *56(%rdi)",
    "shift": "mov 48(%rdi), %rcx; sub %rsp, %rcx; add %rcx, %rsp; jmp *56(%rdi)",
    "stored": "mov 48(%rdi), %rcx; mov %rcx, -16(%rsp); mov 56(%rdi), %rdx;"
    " mov -16(%rsp), %rsp; jmp *%rdx",
    "leave": "mov 56(%rdi), %rdx; mov 48(%rdi), %rcx; mov %rdx, -8(%rcx);"
    " mov %rbp, -16(%rcx); lea -16(%rcx), %rbp; leave; ret",
    "pop": "mov 56(%rdi), %rdx; push 48(%rdi); pop %rsp; jmp *%rdx",
}
"""Ways in which assembly goes on where rdi has the stack pointer, at 48, and the place, at 56."""
