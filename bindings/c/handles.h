// The objects behind the handles of the C interface (include/genesis/genesis_c.h), and what all of its functions do: check pointers
// and struct sizes, and turn exceptions into gn_error. No other code includes this header.
#pragma once

#include <genesis/genesis_c.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/inspector.h"

namespace genesis::c {
// The bytes of a tensor that are in the memory of a GPU, and a copy on the host once one was needed.
class OnGpu {
 public:
  OnGpu(Tensor there, int gpu) : there_(std::move(there)), gpu_(gpu) {}
  const Tensor& there() const { return there_; }
  int gpu() const { return gpu_; }
  // Copies to the host at the first call. Throws Error if the GPU cannot be read.
  const Tensor& here();

 private:
  const Tensor there_;
  const int gpu_;
  std::mutex busy_;
  std::optional<Tensor> here_;
};
}  // namespace genesis::c

struct gn_tensor {
  genesis::Tensor
      tensor;  // on the host, or the tensor of `on_gpu`, whose bytes the host cannot read: see host()
  std::vector<int64_t> sizes;
  bool is_writable = false;                     // nobody else has the bytes
  std::shared_ptr<genesis::c::OnGpu> on_gpu{};  // null: the bytes are on the host

  // The tensor on the host, where it is copied first if it is on a GPU.
  const genesis::Tensor& host() const { return on_gpu ? on_gpu->here() : tensor; }
};

struct gn_tensors {
  std::vector<std::string> names;
  std::vector<gn_tensor> tensors;
};

struct gn_model {
  std::shared_ptr<genesis::Model> model;
};

struct gn_session {
  std::mutex busy;
  std::shared_ptr<const genesis::Model> model;
  std::optional<genesis::Session> session;
  int gpu = -1;                  // the session's device; -1: the CPU
  genesis::OutputBlocks blocks;  // of that GPU
};

namespace genesis::c {

// An argument that no version of a function takes; the others are Errors.
class BadArgument : public Error {
 public:
  using Error::Error;
};

// Returns an error object for the exception that is being handled. `entry` is the entry point of the call, if it has one.
gn_error* current_error(const char* function, const char* entry = "") noexcept;

// Calls body() and returns its exception as an error.
template <class Body>
gn_error* guarded(const char* function, const Body& body, const char* entry = "") noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return current_error(function, entry ? entry : "");
  }
}

// Returns the pointer; throws BadArgument if it is null.
template <class T>
T& required(T* pointer, const char* name) {
  if (!pointer) throw BadArgument(std::string(name) + " is null");
  return *pointer;
}

inline std::string text_of(const char* text, const char* name) { return &required(text, name); }
inline std::string text_or_empty(const char* text) { return text ? text : ""; }

// Sets an output to null before its call checks anything else, so that it is null after every failure.
template <class T>
void clear(T** out) {
  if (out) *out = nullptr;
}

// Prepares an output: throws BadArgument if the pointer to it is null, and sets it to null.
template <class T>
T*& output(T** out, const char* name = "out") {
  T*& result = required(out, name);
  result = nullptr;
  return result;
}

// Returns a copy of the options with zeros for the fields that the caller's version lacks; all zeros for null.
template <class T>
T options_of(const T* given, size_t least_size) {
  T options{};
  options.struct_size = sizeof(T);
  if (!given) return options;
  const size_t size = given->struct_size;
  if (size < least_size || size > sizeof(T))
    throw BadArgument(fmt::format("struct_size is {}, expected {}: set it to sizeof the struct{}", size,
                                  sizeof(T),
                                  size > sizeof(T) ? ", and use a library as new as the header" : ""));
  std::memcpy(static_cast<void*>(&options), given, size);
  options.struct_size = sizeof(T);
  return options;
}

// Held during a call; throws Error if another thread has it.
class OnlyUser {
 public:
  OnlyUser(std::mutex& busy, const char* what) : lock_(busy, std::try_to_lock) {
    if (!lock_) fail("the {} is used by another call: use it from one thread at a time", what);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

gn_tensor* new_tensor(Tensor tensor, bool is_writable);
gn_tensor on_gpu(Tensor tensor, int gpu, bool is_writable);  // of tensor_on_gpu()
gn_tensors* new_tensors(const NamedTensors& tensors);
char* new_text(const std::string& text);
SessionOptions session_options(const char* device, int32_t threads);
DType dtype_of_number(int32_t number);

}  // namespace genesis::c
