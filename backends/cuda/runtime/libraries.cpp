#include "backends/cuda/runtime/libraries.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <mutex>

#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

std::mutex opening;

std::string versioned(const char* name) {
  return std::string(name) + "." + std::to_string(CUDART_VERSION / 1000);
}

}  // namespace

bool Library::open() {
  const std::lock_guard lock(opening);
  if (handle_ || !error_.empty()) return handle_ != nullptr;
  for (const std::string& name : names_)
    for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
      handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return true;
      if (error_.empty()) error_ = dlerror();
    }
  return false;
}

bool Library::available() { return open(); }

void* Library::symbol(const char* name) {
  if (!open())
    fail("{} is needed and was not found ({}): install it, or put its folder into LD_LIBRARY_PATH", what_,
         error_);
  if (void* found = dlsym(handle_, name)) return found;
  fail("{} has no function {}: it is older than the one this build was made with", what_, name);
}

Library& cublas_lt() {
  static Library library("cuBLASLt", {versioned("libcublasLt.so")});
  return library;
}
Library& cudnn() {
  static Library library("cuDNN 9", {"libcudnn.so.9"});
  return library;
}
Library& nvrtc() {
  static Library library("NVRTC", {versioned("libnvrtc.so")});
  return library;
}
Library& driver() {
  static Library library("the NVIDIA driver", {"libcuda.so.1"});
  return library;
}

}  // namespace genesis::cuda
