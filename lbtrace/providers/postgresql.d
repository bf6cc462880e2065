/* PostgreSQL: src/backend/utils/probes.d, and postgresql.org/docs/15/dynamic-trace.html. */
provider postgresql {
	probe transaction__start(unsigned int id);
	probe transaction__commit(unsigned int id);
	probe transaction__abort(unsigned int id);
	probe lwlock__acquire(char *tranche, int mode);
	probe lwlock__release(char *tranche);
	probe lwlock__wait__start(char *tranche, int mode);
	probe lwlock__wait__done(char *tranche, int mode);
	probe lwlock__condacquire(char *tranche, int mode);
	probe lwlock__condacquire__fail(char *tranche, int mode);
	probe lwlock__acquire__or__wait(char *tranche, int mode);
	probe lwlock__acquire__or__wait__fail(char *tranche, int mode);
	probe lock__wait__start(unsigned int field1, unsigned int field2, unsigned int field3, unsigned int field4,
		unsigned int type, int mode);
	probe lock__wait__done(unsigned int field1, unsigned int field2, unsigned int field3, unsigned int field4,
		unsigned int type, int mode);
	probe query__start(char *query);
	probe query__done(char *query);
	probe query__parse__start(char *query);
	probe query__parse__done(char *query);
	probe query__rewrite__start(char *query);
	probe query__rewrite__done(char *query);
	probe query__plan__start();
	probe query__plan__done();
	probe query__execute__start();
	probe query__execute__done();
	probe statement__status(char *status);
	probe sort__start(int type, bool unique, int keys, int memory_kb, bool random_access, int parallel);
	probe sort__done(bool external, long blocks);
	probe buffer__read__start(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation, int backend, bool extend);
	probe buffer__read__done(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation, int backend, bool extend, bool found);
	probe buffer__flush__start(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation);
	probe buffer__flush__done(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation);
	probe buffer__write__dirty__start(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation);
	probe buffer__write__dirty__done(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation);
	probe buffer__checkpoint__start(int flags);
	probe buffer__checkpoint__sync__start();
	probe buffer__checkpoint__done();
	probe buffer__sync__start(int buffers, int to_write);
	probe buffer__sync__written(int buffer);
	probe buffer__sync__done(int buffers, int written, int to_write);
	probe deadlock__found();
	probe checkpoint__start(int flags);
	probe checkpoint__done(int written, int buffers, int added, int removed, int recycled);
	probe clog__checkpoint__start(bool at_shutdown);
	probe clog__checkpoint__done(bool at_shutdown);
	probe subtrans__checkpoint__start(bool at_shutdown);
	probe subtrans__checkpoint__done(bool at_shutdown);
	probe multixact__checkpoint__start(bool at_shutdown);
	probe multixact__checkpoint__done(bool at_shutdown);
	probe twophase__checkpoint__start();
	probe twophase__checkpoint__done();
	probe smgr__md__read__start(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation, int backend);
	probe smgr__md__read__done(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation, int backend, int bytes, int wanted);
	probe smgr__md__write__start(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation, int backend);
	probe smgr__md__write__done(int fork, unsigned int block, unsigned int tablespace, unsigned int database,
		unsigned int relation, int backend, int bytes, int wanted);
	probe wal__insert(unsigned char resource_manager, unsigned char info);
	probe wal__switch();
	probe wal__buffer__write__dirty__start();
	probe wal__buffer__write__dirty__done();

#pragma lbtrace pair query__start query__done by query
#pragma lbtrace pair query__parse__start query__parse__done by query
#pragma lbtrace pair query__rewrite__start query__rewrite__done by query
#pragma lbtrace pair query__plan__start query__plan__done
#pragma lbtrace pair query__execute__start query__execute__done
#pragma lbtrace pair lwlock__wait__start lwlock__wait__done by tranche
#pragma lbtrace pair lock__wait__start lock__wait__done by field1 field2 field3 field4
#pragma lbtrace pair buffer__read__start buffer__read__done by fork database relation
#pragma lbtrace pair buffer__flush__start buffer__flush__done by fork block relation
#pragma lbtrace pair buffer__write__dirty__start buffer__write__dirty__done by fork block relation
#pragma lbtrace pair buffer__checkpoint__start buffer__checkpoint__done
#pragma lbtrace pair buffer__sync__start buffer__sync__done
#pragma lbtrace pair checkpoint__start checkpoint__done
#pragma lbtrace pair clog__checkpoint__start clog__checkpoint__done
#pragma lbtrace pair subtrans__checkpoint__start subtrans__checkpoint__done
#pragma lbtrace pair multixact__checkpoint__start multixact__checkpoint__done
#pragma lbtrace pair twophase__checkpoint__start twophase__checkpoint__done
#pragma lbtrace pair smgr__md__read__start smgr__md__read__done by fork block relation
#pragma lbtrace pair smgr__md__write__start smgr__md__write__done by fork block relation
#pragma lbtrace pair wal__buffer__write__dirty__start wal__buffer__write__dirty__done
};
