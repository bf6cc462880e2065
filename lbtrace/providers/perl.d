/* Perl: perldtrace.d, and perldtrace(1). */
provider perl {
	probe sub__entry(char *name, char *filename, int line, char *package);
	probe sub__return(char *name, char *filename, int line, char *package);
	probe loading__file(char *filename);
	probe loaded__file(char *filename);
	probe op__entry(char *op);
	probe phase__change(char *phase, char *former);

#pragma lbtrace pair sub__entry sub__return by name package nests
#pragma lbtrace pair loading__file loaded__file by filename nests
};
