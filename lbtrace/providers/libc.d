/* glibc: LIBC_PROBE in malloc/malloc.c, malloc/arena.c, and nptl/; setjmp.S and __longjmp.S of
   sysdeps/x86_64. The manual ("Internal Probes") has the two of sbrk the wrong way round. */
provider libc {
	probe memory_sbrk_more(void *start, size_t size);
	probe memory_sbrk_less(void *end, size_t size);
	probe memory_heap_new(void *heap, size_t size);
	probe memory_heap_free(void *heap, size_t size);
	probe memory_heap_more(void *heap, size_t size);
	probe memory_heap_less(void *heap, size_t size);
	probe memory_malloc_retry(size_t size);
	probe memory_realloc_retry(size_t size, void *former);
	probe memory_memalign_retry(size_t size, size_t alignment);
	probe memory_calloc_retry(size_t size);
	probe memory_arena_retry(size_t size, void *arena);
	probe memory_arena_new(void *arena, size_t size);
	probe memory_arena_reuse(void *arena, void *former);
	probe memory_arena_reuse_wait(void *mutex, void *arena, void *former);
	probe memory_arena_reuse_free_list(void *arena);
	probe memory_mallopt(int parameter, int value);
	probe memory_mallopt_mmap_threshold(size_t value, size_t former, int fixed);
	probe memory_mallopt_trim_threshold(size_t value, size_t former, int fixed);
	probe memory_mallopt_top_pad(size_t value, size_t former, int fixed);
	probe memory_mallopt_mmap_max(int value, int former, int fixed);
	probe memory_mallopt_mxfast(size_t value, size_t former);
	probe memory_mallopt_perturb(int value, int former);
	probe memory_mallopt_arena_test(size_t value, size_t former);
	probe memory_mallopt_arena_max(size_t value, size_t former);
	probe memory_mallopt_free_dyn_thresholds(size_t mmap_threshold, size_t trim_threshold);
	probe memory_tunable_tcache_max_bytes(size_t value, size_t former);
	probe memory_tunable_tcache_count(size_t value, size_t former);
	probe memory_tunable_tcache_unsorted_limit(size_t value, size_t former);
	probe memory_tcache_double_free(void *block, size_t bin);
	probe setjmp(void *buffer, int value, void *target);
	probe longjmp(void *buffer, int value, void *target);
	probe longjmp_target(void *buffer, int value, void *target);
	probe pthread_create(void *thread, void *attributes, void *start, void *argument);
	probe pthread_start(void *thread, void *start, void *argument);
	probe pthread_join(void *thread);
	probe pthread_join_ret(void *thread, int status);
	probe pthread_join_ret(void *thread, int status, void *value);
	probe lll_lock_wait_private(void *futex);
	probe lll_lock_wait(void *futex, int private);
	probe lll_lock_wait(void *futex);
	probe mutex_init(void *mutex);
	probe mutex_destroy(void *mutex);
	probe mutex_entry(void *mutex);
	probe mutex_acquired(void *mutex);
	probe mutex_release(void *mutex);
	probe mutex_timedlock_entry(void *mutex, void *until);
	probe mutex_clocklock_entry(void *mutex, int clock, void *until);
	probe mutex_timedlock_acquired(void *mutex);
	probe cond_init(void *condition, void *attributes);
	probe cond_destroy(void *condition);
	probe cond_wait(void *condition, void *mutex);
	probe cond_signal(void *condition);
	probe cond_broadcast(void *condition);
	probe rwlock_destroy(void *lock);
	probe rdlock_entry(void *lock);
	probe rdlock_acquire_read(void *lock);
	probe wrlock_entry(void *lock);
	probe wrlock_acquire_write(void *lock);
	probe rwlock_unlock(void *lock);

#pragma lbtrace pair pthread_join pthread_join_ret by thread
#pragma lbtrace pair mutex_entry mutex_acquired by mutex
#pragma lbtrace pair rdlock_entry rdlock_acquire_read by lock
#pragma lbtrace pair wrlock_entry wrlock_acquire_write by lock
};
