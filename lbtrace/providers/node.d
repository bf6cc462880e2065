/* Node.js up to version 18: src/node.stp, src/node_provider.d. */
provider node {
	probe net__server__connection(void *connection, char *remote, int port, int fd);
	probe net__stream__end(void *connection, char *remote, int port, int fd);
	probe net__socket__write(void *connection, int bytes, char *remote, int port, int fd);
	probe net__socket__read(void *connection, int bytes, char *remote, int port, int fd);
	probe http__server__request(void *request, void *connection, char *remote, int port, char *method, char *url,
		int fd);
	probe http__server__response(void *connection, char *remote, int port, int fd);
	probe http__client__request(void *request, void *connection, char *remote, int port, char *method, char *url,
		int fd);
	probe http__client__response(void *connection, char *remote, int port, int fd);
	probe gc__start(int type, int flags, void *isolate);
	probe gc__done(int type, int flags, void *isolate);

#pragma lbtrace pair gc__start gc__done by isolate
};
