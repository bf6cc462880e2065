/* GCC: libstdc++-v3/libsupc++/unwind-cxx.h (PROBE2) and gcc.gnu.org's "SystemTap probes" in eh_throw.cc, eh_catch.cc. */
provider libstdcxx {
	probe throw(void *object, void *type);
	probe rethrow(void *object, void *type);
	probe catch(void *object, void *type);
};
