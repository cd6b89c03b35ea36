// Compiles CUDA C++ to machine code at run time through NVRTC. The code is kept on disk under a hash of (text,
// options, version of NVRTC), so that a program is compiled once per chip. Compiling needs no GPU and is safe from
// several threads at once; loading needs the device to be current.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

namespace genesis::cuda {

// Returns the machine code of `source` for compute capability major.minor, or PTX if NVRTC does not know that chip.
// Throws Error with NVRTC's messages.
std::string compile(const std::string& source, int major, int minor);

// Machine code loaded onto the device, and the kernels in it.
class LoadedCode {
 public:
  explicit LoadedCode(std::string code);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  // Returns an extern "C" kernel in the form that cudaLaunchKernel takes.
  const void* kernel(const char* name) const;

 private:
  std::string code_;
  cudaLibrary_t library_ = nullptr;
};

// Returns `source` compiled for the current device and loaded; steps with the same source share it. Safe from several
// threads.
std::shared_ptr<const LoadedCode> load(const std::string& source);

}  // namespace genesis::cuda
