/* Code that the loader changes: addresses in its first and last instructions. */
	.text
	.globl first, second, jumps
	.type first, @function
first:	movabs $value, %rax
	mov (%rax), %eax
	ret
	.size first, .-first
	.type second, @function
second:	push %rbx
	movabs $inner, %rax
	call *%rax
	pop %rbx
	ret
	.size second, .-second
	.type jumps, @function
jumps:	movabs $inner, %rax
	jmp *%rax
	.size jumps, .-jumps
	.type inner, @function
inner:	mov $7, %eax
	ret
	.size inner, .-inner
	.data
value:	.quad 5
	.section .note.GNU-stack, "", @progbits
