/* PHP 7 and later: Zend/zend_dtrace.d and zend_dtrace.c, which passes the opened path first, and
   that only when it is known; the manual says otherwise. What exception__caught passes is a
   zend_string (Zend/zend_vm_def.h), whose text follows its header of 24 bytes. */
provider php {
	probe exception__caught(char *class_name);
	probe exception__thrown(char *class_name);
	probe request__startup(char *filename, char *uri, char *method);
	probe request__shutdown(char *filename, char *uri, char *method);
	probe compile__file__entry(char *resolved, char *file);
	probe compile__file__return(char *resolved, char *file);
	probe error(char *message, char *filename, int line);
	probe execute__entry(char *filename, int line);
	probe execute__return(char *filename, int line);
	probe function__entry(char *function, char *filename, int line, char *class_name, char *scope);
	probe function__return(char *function, char *filename, int line, char *class_name, char *scope);

#pragma lbtrace text exception__caught class_name at 24
#pragma lbtrace pair request__startup request__shutdown
#pragma lbtrace pair compile__file__entry compile__file__return by file
#pragma lbtrace pair execute__entry execute__return by filename
#pragma lbtrace pair function__entry function__return by function class_name
};
