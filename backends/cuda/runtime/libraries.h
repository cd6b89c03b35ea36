// Opens cuBLASLt, cuDNN, NVRTC and the driver's library at run time, so that the tools start on machines that have
// none of them. Function types come from the libraries' headers, at compile time only.
#pragma once

#include <string>
#include <vector>

namespace genesis::cuda {

class Library {
 public:
  // Tries the names in order, by the system's search path and then in /usr/local/cuda. Opens the library at its first
  // use.
  Library(std::string what, std::vector<std::string> names)
      : what_(std::move(what)), names_(std::move(names)) {}

  bool available();
  // Throws Error that names the library, what was tried and the remedy.
  void* symbol(const char* name);
  // auto create = cublas_lt().function<decltype(&cublasLtCreate)>("cublasLtCreate");
  template <class Function>
  Function function(const char* name) {
    return reinterpret_cast<Function>(symbol(name));
  }

 private:
  bool open();

  std::string what_;
  std::vector<std::string> names_;
  std::string error_;
  void* handle_ = nullptr;
};

Library& cublas_lt();
Library& cudnn();
Library& nvrtc();
Library& driver();

}  // namespace genesis::cuda
