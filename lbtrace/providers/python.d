/* CPython: Include/pydtrace.d, and docs.python.org/3/howto/instrumentation.html. */
provider python {
	probe function__entry(char *filename, char *function, int line);
	probe function__return(char *filename, char *function, int line);
	probe instance__new__start(char *class_name, char *filename);
	probe instance__new__done(char *class_name, char *filename);
	probe instance__delete__start(char *class_name, char *filename);
	probe instance__delete__done(char *class_name, char *filename);
	probe line(char *filename, char *function, int line);
	probe gc__start(int generation);
	probe gc__done(long collected);
	probe import__find__load__start(char *module);
	probe import__find__load__done(char *module, bool found);
	probe audit(char *event, void *arguments);

#pragma lbtrace pair function__entry function__return by filename function nests
#pragma lbtrace pair gc__start gc__done
#pragma lbtrace pair import__find__load__start import__find__load__done by module
};
