/* OpenJDK: src/hotspot/os/posix/dtrace/hotspot.d, and docs.oracle.com/en/java/javase/11/vm/dtrace-probes-hotspot-vm.html. */
provider hotspot {
	probe class__loaded(char *name, uintptr_t name_length, void *loader, bool shared);
	probe class__unloaded(char *name, uintptr_t name_length, void *loader, bool shared);
	probe class__initialization__required(char *name, uintptr_t name_length, void *loader, intptr_t thread_type);
	probe class__initialization__recursive(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe class__initialization__concurrent(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe class__initialization__erroneous(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe class__initialization__super__failed(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe class__initialization__clinit(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe class__initialization__error(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe class__initialization__end(char *name, uintptr_t name_length, void *loader, intptr_t thread_type, bool waited);
	probe vm__init__begin();
	probe vm__init__end();
	probe vm__shutdown();
	probe vmops__request(char *name, uintptr_t name_length, int mode);
	probe vmops__begin(char *name, uintptr_t name_length, int mode);
	probe vmops__end(char *name, uintptr_t name_length, int mode);
	probe gc__begin(bool full);
	probe gc__end();
	probe mem__pool__gc__begin(char *manager, uintptr_t manager_length, char *pool, uintptr_t pool_length,
		uintptr_t initial, uintptr_t used, uintptr_t committed, uintptr_t maximum);
	probe mem__pool__gc__end(char *manager, uintptr_t manager_length, char *pool, uintptr_t pool_length,
		uintptr_t initial, uintptr_t used_after, uintptr_t committed_after, uintptr_t maximum);
	probe thread__start(char *name, uintptr_t name_length, uintptr_t java_id, uintptr_t native_id, bool daemon);
	probe thread__stop(char *name, uintptr_t name_length, uintptr_t java_id, uintptr_t native_id, bool daemon);
	probe thread__sleep__begin(int64_t duration);
	probe thread__sleep__end(bool interrupted);
	probe thread__yield();
	probe thread__park__begin(void *parker, bool absolute, int64_t time);
	probe thread__park__end(void *parker);
	probe thread__unpark(void *parker);
	probe method__compile__begin(char *compiler, uintptr_t compiler_length, char *class_name, uintptr_t class_name_length,
		char *method, uintptr_t method_length, char *signature, uintptr_t signature_length);
	probe method__compile__end(char *compiler, uintptr_t compiler_length, char *class_name, uintptr_t class_name_length,
		char *method, uintptr_t method_length, char *signature, uintptr_t signature_length, bool succeeded);
	probe compiled__method__load(char *class_name, uintptr_t class_name_length, char *method, uintptr_t method_length,
		char *signature, uintptr_t signature_length, void *code, uintptr_t code_size);
	probe compiled__method__unload(char *class_name, uintptr_t class_name_length, char *method, uintptr_t method_length,
		char *signature, uintptr_t signature_length);
	probe monitor__contended__enter(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length);
	probe monitor__contended__entered(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length);
	probe monitor__contended__exit(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length);
	probe monitor__wait(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length, int64_t timeout);
	probe monitor__waited(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length);
	probe monitor__notify(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length);
	probe monitor__notifyAll(uintptr_t java_id, void *monitor, char *class_name, uintptr_t class_name_length);
	probe object__alloc(int64_t java_id, char *class_name, uintptr_t class_name_length, uintptr_t size);
	probe method__entry(int64_t java_id, char *class_name, int class_name_length, char *method, int method_length,
		char *signature, int signature_length);
	probe method__return(int64_t java_id, char *class_name, int class_name_length, char *method, int method_length,
		char *signature, int signature_length);

#pragma lbtrace pair vm__init__begin vm__init__end
#pragma lbtrace pair gc__begin gc__end
#pragma lbtrace pair vmops__begin vmops__end by name
#pragma lbtrace pair thread__sleep__begin thread__sleep__end
#pragma lbtrace pair thread__park__begin thread__park__end by parker
#pragma lbtrace pair method__compile__begin method__compile__end by class_name method signature
#pragma lbtrace pair monitor__contended__enter monitor__contended__entered by monitor
#pragma lbtrace pair monitor__wait monitor__waited by monitor
#pragma lbtrace pair method__entry method__return by class_name method signature nests
};
