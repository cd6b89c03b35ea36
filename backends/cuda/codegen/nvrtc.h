// Kernels made at run time: CUDA C++ text to machine code through NVRTC, kept on disk under a hash
// of (text, options, version of NVRTC), so that a program is compiled once per chip. Used by
// kernels/tensor/elementwise.cpp. Compiling needs no GPU and is safe from several threads at once; loading needs
// the device current.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

namespace genesis::cuda {

// Machine code of `source` for chips of compute capability major.minor; PTX where NVRTC does not know the
// chip yet. Throws Error with NVRTC's own messages.
std::string compile(const std::string& source, int major, int minor);

// Machine code on the device, and the kernels in it.
class LoadedCode {
 public:
  explicit LoadedCode(std::string code);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  // For cudaLaunchKernel: the address of an extern "C" kernel.
  const void* kernel(const char* name) const;

 private:
  std::string code_;
  cudaLibrary_t library_ = nullptr;
};

// Compiled for the current device and loaded; steps with the same source share it. Safe from several threads.
std::shared_ptr<const LoadedCode> load(const std::string& source);

}  // namespace genesis::cuda
