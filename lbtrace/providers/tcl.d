/* Tcl: generic/tclDTrace.d, and wiki.tcl-lang.org/page/DTrace. */
provider tcl {
	probe proc__entry(char *name, int count, void *arguments);
	probe proc__return(char *name, int code);
	probe proc__result(char *name, int code, char *result, void *object);
	probe proc__args(char *name, char *arg1, char *arg2, char *arg3, char *arg4, char *arg5, char *arg6, char
		*arg7, char *arg8, char *arg9);
	probe proc__info(char *command, char *type, char *procedure, char *file, int line, int level, char *method,
		char *class);
	probe cmd__entry(char *name, int count, void *arguments);
	probe cmd__return(char *name, int code);
	probe cmd__result(char *name, int code, char *result, void *object);
	probe cmd__args(char *name, char *arg1, char *arg2, char *arg3, char *arg4, char *arg5, char *arg6, char
		*arg7, char *arg8, char *arg9);
	probe cmd__info(char *command, char *type, char *procedure, char *file, int line, int level, char *method,
		char *class);
	probe inst__start(char *name, int depth, void *stack);
	probe inst__done(char *name, int depth, void *stack);
	probe obj__create(void *object);
	probe obj__free(void *object);
	probe tcl__probe(char *arg0, char *arg1, char *arg2, char *arg3, char *arg4, char *arg5, char *arg6, char
		*arg7, char *arg8, char *arg9);

#pragma lbtrace pair proc__entry proc__return by name nests
#pragma lbtrace pair cmd__entry cmd__return by name nests
};
