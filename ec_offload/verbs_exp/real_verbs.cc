#include "ec_offload/verbs_exp/real_verbs.h"

#include <dlfcn.h>

namespace ring::ec_verbs {

void* RealSymbol(const char* name) {
  // By its name, not the next one in the search order: that works from a program, a library that
  // was opened at run time, and as LD_PRELOAD.
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : dlsym(library, name);
}

}  // namespace ring::ec_verbs
