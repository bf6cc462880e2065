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
    "leave": "lea -8(%rsi), %rbp; leave",
    "frame": "mov %rsi, %rbp; mov %rbp, %rsp",
}
