/* System calls with texts whose pages are absent when they begin, and with buffers that they fill. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char *map(int fd)  /* its page is in memory, but not in the process */
{
	char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	madvise(at, 4096, MADV_RANDOM);
	return at;
}

int main(void)
{
	struct sockaddr_un nobody = {AF_UNIX, "/nobody/listens"};
	int fd = open("page", O_RDWR | O_CREAT | O_TRUNC, 0600), pair[2], type = 0x41414141;
	int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	socklen_t size = sizeof(type), linger = sizeof(struct linger);
	char page[4096] = "/etc/passwd", sent[100], got[100];
	struct linger lasting = {0};

	write(fd, page, sizeof(page));
	for (int n = 0; n < 5; n++) {
		char *absent = map(fd);

		close(open(absent, O_RDONLY));
		close(open(absent, O_RDONLY));  /* now the page is there */
		munmap(absent, 4096);
		absent = map(fd);
		write(out, absent, 11);
		munmap(absent, 4096);
	}
	open("/nothing", O_RDONLY);
	socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	memset(sent, 'A', sizeof(sent));
	memset(got, 'S', sizeof(got));
	sendto(pair[0], sent, 100, 0, NULL, 0);
	recv(pair[1], got, 10, MSG_TRUNC);
	sendto(pair[0], sent, 100, 0, NULL, 0);
	recv(pair[1], got, 0, MSG_TRUNC);
	pread(fd, got, 4, 1);
	pread(fd, got, 4, 5);
	pread(fd, got, 4, 4096);
	getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &size);
	getsockopt(pair[0], SOL_SOCKET, SO_LINGER, &lasting, &linger);
	getsockopt(99, SOL_SOCKET, SO_TYPE, &type, &size);
	connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&nobody, sizeof(nobody));
	return 0;
}
