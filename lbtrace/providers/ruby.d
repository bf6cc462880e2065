/* Ruby: probes.d, and doc/dtrace_probes.rdoc. */
provider ruby {
	probe method__entry(char *class_name, char *method, char *filename, int line);
	probe method__return(char *class_name, char *method, char *filename, int line);
	probe cmethod__entry(char *class_name, char *method, char *filename, int line);
	probe cmethod__return(char *class_name, char *method, char *filename, int line);
	probe require__entry(char *required, char *filename, int line);
	probe require__return(char *required, char *filename, int line);
	probe find__require__entry(char *required, char *filename, int line);
	probe find__require__return(char *required, char *filename, int line);
	probe load__entry(char *loaded, char *filename, int line);
	probe load__return(char *loaded, char *filename, int line);
	probe raise(char *class_name, char *filename, int line);
	probe object__create(char *class_name, char *filename, int line);
	probe array__create(long length, char *filename, int line);
	probe hash__create(long length, char *filename, int line);
	probe string__create(long length, char *filename, int line);
	probe symbol__create(char *symbol, char *filename, int line);
	probe parse__begin(char *source, int line);
	probe parse__end(char *source, int line);
	probe method__cache__clear(char *class_name, char *filename, int line);
	probe gc__mark__begin();
	probe gc__mark__end();
	probe gc__sweep__begin();
	probe gc__sweep__end();

#pragma lbtrace pair method__entry method__return by class_name method nests
#pragma lbtrace pair cmethod__entry cmethod__return by class_name method nests
#pragma lbtrace pair require__entry require__return by required
#pragma lbtrace pair find__require__entry find__require__return by required
#pragma lbtrace pair load__entry load__return by loaded
#pragma lbtrace pair parse__begin parse__end by source
#pragma lbtrace pair gc__mark__begin gc__mark__end
#pragma lbtrace pair gc__sweep__begin gc__sweep__end
};
