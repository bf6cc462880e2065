/* glibc: elf/rtld-debugger-interface.txt ("Probe-based debugger interface"). */
provider rtld {
	probe init_start(long namespace, void *r_debug);
	probe init_complete(long namespace, void *r_debug);
	probe map_start(long namespace, void *r_debug);
	probe map_complete(long namespace, void *r_debug);
	probe map_complete(long namespace, void *r_debug, void *first);
	probe map_failed(long namespace, void *r_debug);
	probe reloc_start(long namespace, void *r_debug);
	probe reloc_complete(long namespace, void *r_debug);
	probe reloc_complete(long namespace, void *r_debug, void *first);
	probe unmap_start(long namespace, void *r_debug);
	probe unmap_complete(long namespace, void *r_debug);
	probe setjmp(void *buffer, int value, void *target);
	probe longjmp(void *buffer, int value, void *target);
	probe longjmp_target(void *buffer, int value, void *target);

#pragma lbtrace pair init_start init_complete
#pragma lbtrace pair map_start map_complete by namespace
#pragma lbtrace pair reloc_start reloc_complete by namespace
#pragma lbtrace pair unmap_start unmap_complete by namespace
};
