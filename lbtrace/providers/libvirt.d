/* libvirt: src/libvirt_probes.d, src/qemu/libvirt_qemu_probes.d; arguments as in libvirt 9.0. */
provider libvirt {
	probe event_poll_add_handle(int watch, int fd, int events, void *callback, void *data, void *release);
	probe event_poll_update_handle(int watch, int events);
	probe event_poll_remove_handle(int watch);
	probe event_poll_add_timeout(int timer, int interval, void *callback, void *data, void *release);
	probe event_poll_update_timeout(int timer, int interval);
	probe event_poll_remove_timeout(int timer);
	probe event_glib_add_handle(int watch, int fd, int events, void *callback, void *data, void *release);
	probe event_glib_update_handle(int watch, int events);
	probe event_glib_remove_handle(int watch);
	probe event_glib_add_timeout(int timer, int interval, void *callback, void *data, void *release);
	probe event_glib_update_timeout(int timer, int interval);
	probe event_glib_remove_timeout(int timer);
	probe event_poll_dispatch_handle(int watch, int events);
	probe event_poll_dispatch_timeout(int timer);
	probe event_poll_purge_handle(int watch);
	probe event_poll_purge_timeout(int timer);
	probe event_poll_run(int fds, int timeout);
	probe event_glib_dispatch_handle(int watch, int events, void *callback, void *data);
	probe event_glib_dispatch_timeout(int timer, void *callback, void *data);
	probe event_glib_remove_handle_idle(int watch, void *release, void *data);
	probe event_glib_remove_timeout_idle(int timer, void *release, void *data);
	probe object_new(void *object, char *class_name);
	probe object_ref(void *object);
	probe object_unref(void *object);
	probe object_dispose(void *object);
	probe rpc_socket_new(void *socket, int fd, int error_fd, pid_t pid, char *local, char *remote);
	probe rpc_socket_send_fd(void *socket, int fd);
	probe rpc_socket_recv_fd(void *socket, int fd);
	probe rpc_server_client_new(void *client, void *socket);
	probe rpc_server_client_msg_tx_queue(void *client, int length, int program, int version, int procedure, int
		type, int status, int serial);
	probe rpc_server_client_msg_rx(void *client, int length, int program, int version, int procedure, int type,
		int status, int serial);
	probe rpc_client_new(void *client, void *socket);
	probe rpc_client_msg_tx_queue(void *client, int length, int program, int version, int procedure, int type, int
		status, int serial);
	probe rpc_client_msg_rx(void *client, int length, int program, int version, int procedure, int type, int
		status, int serial);
	probe rpc_server_client_auth_allow(void *client, int type, char *identity);
	probe rpc_server_client_auth_deny(void *client, int type, char *identity);
	probe rpc_server_client_auth_fail(void *client, int type);
	probe rpc_tls_context_new(void *context, char *ca, char *crl, char *certificate, char *key, int sanity_check,
		int require_valid, int server);
	probe rpc_tls_context_session_allow(void *context, void *session, char *name);
	probe rpc_tls_context_session_deny(void *context, void *session, char *name);
	probe rpc_tls_context_session_fail(void *context, void *session);
	probe rpc_tls_session_new(void *session, void *context, char *host, int server);
	probe rpc_tls_session_handshake_pass(void *session);
	probe rpc_tls_session_handshake_fail(void *session);
	probe rpc_keepalive_new(void *keepalive, void *client);
	probe rpc_keepalive_start(void *keepalive, void *client, int interval, int count);
	probe rpc_keepalive_stop(void *keepalive, void *client);
	probe rpc_keepalive_send(void *keepalive, void *client, int program, int version, int procedure);
	probe rpc_keepalive_received(void *keepalive, void *client, int program, int version, int procedure);
	probe rpc_keepalive_timeout(void *keepalive, void *client, int count, int idle);
	probe rpc_client_dispose(void *client);
	probe rpc_keepalive_dispose(void *keepalive);
	probe rpc_server_client_dispose(void *server_client);
	probe rpc_socket_dispose(void *socket);
	probe rpc_tls_context_dispose(void *tls_context);
	probe rpc_tls_session_dispose(void *tls_session);
	probe qemu_monitor_new(void *monitor, int fd);
	probe qemu_monitor_close(void *monitor);
	probe qemu_monitor_send_msg(void *monitor, char *message, int fd);
	probe qemu_monitor_recv_reply(void *monitor, char *reply);
	probe qemu_monitor_recv_event(void *monitor, char *event);
	probe qemu_monitor_io_process(void *monitor, char *buffer, unsigned int buffer_length);
	probe qemu_monitor_io_read(void *monitor, char *buffer, unsigned int buffer_length, int result, int error);
	probe qemu_monitor_io_write(void *monitor, char *buffer, unsigned int buffer_length, int result, int error);
	probe qemu_monitor_io_send_fd(void *monitor, int fd, int result, int error);
};
