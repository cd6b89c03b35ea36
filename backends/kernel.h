// The interface of kernels on all devices: a kernel is a plain function over typed memory, found in an ordered list of
// implementations per op. It never allocates, never throws and never sees the graph; everything that can fail is checked when the
// plan is made.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schema/core/dtype.h"
#include "schema/graph/target.h"

namespace genesis {

class Collectives;

// Dense row-major memory with known sizes.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;                          // number of dimensions
  std::array<int64_t, kMaxRank> dims{};  // outermost first

  // Returns the size of a dimension; negative axes count from the last one.
  int64_t dim(int axis) const { return dims[static_cast<size_t>(axis < 0 ? axis + rank : axis)]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[static_cast<size_t>(i)];
    return n;
  }
  int64_t bytes() const { return numel() * static_cast<int64_t>(size_of(dtype)); }
  std::span<const int64_t> sizes() const { return {dims.data(), static_cast<size_t>(rank)}; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

TensorView view_of(const TensorType& type, void* data);  // `type` has known sizes
Tensor copy_of(const TensorView& view);                  // `view` is in host memory

// Set by a kernel if its input data cannot be used (e.g. an index out of range); the runner turns it into an Error that names the
// node. The first report wins; the kernel skips the element and continues.
struct Fault {
  std::atomic<bool> set{false};
  int64_t value = 0, limit = 0;  // the offending value; valid ones are in [0, limit)
  // Describes a fault that is no value out of range, as a text with static lifetime; else null.
  const char* what = nullptr;

  void report(int64_t bad_value, int64_t bad_limit) {
    if (set.exchange(true)) return;
    value = bad_value;
    limit = bad_limit;
    what = nullptr;
  }
  void report(const char* text) {
    if (!set.exchange(true)) what = text;
  }
};

// The argument of a kernel: the tensors and the resources of one run of a node.
struct KernelContext {
  std::span<const TensorView> inputs, outputs;
  const void* attributes_ptr = nullptr;  // the op's attribute struct
  const void* prepared_ptr = nullptr;    // result of the implementation's prepare(), or null
  std::byte* scratch = nullptr;          // scratch_bytes() of the implementation, aligned to 64
  Fault* fault = nullptr;                // never null in a run
  const void* launch = nullptr;          // a cuda::Launch for kernels of a GPU
  Collectives* collectives = nullptr;    // to exchange data with other ranks; null: there is one rank

  const TensorView& input(int i) const { return inputs[static_cast<size_t>(i)]; }
  const TensorView& output(int i = 0) const { return outputs[static_cast<size_t>(i)]; }
  int num_inputs() const { return static_cast<int>(inputs.size()); }
  template <class Op>
  const Op& attributes() const {
    return *static_cast<const Op*>(attributes_ptr);
  }
  template <class T>
  const T& prepared() const {
    return *static_cast<const T*>(prepared_ptr);
  }
};

// One implementation of an op's kernel. `run` is called in every run; all other functions are called when a plan is made.
struct KernelImpl {
  std::string_view name;  // usable on a command line, e.g. "split_keys"
  void (*run)(const KernelContext&);
  // Returns the reason why the implementation cannot run the node, or nullopt if it can. A null function: it runs every node.
  std::optional<std::string> (*can_run)(const KernelQuery&) = nullptr;
  // Returns the size of KernelContext::scratch. A null function: it needs none.
  int64_t (*scratch_bytes)(const KernelQuery&) = nullptr;
  // Creates KernelContext::prepared_ptr, once per step of a plan (matmul primitives, parsed programs, strides).
  std::shared_ptr<const void> (*prepare)(const KernelQuery&) = nullptr;
  // Chooses among the kernel's own implementations, e.g. of a matrix product. Null: it has none.
  KernelChoice (*choose_inner)(const KernelQuery&) = nullptr;
  // True if the kernel runs kernels of other ops one after the other. Passes then do not combine nodes into one node of this op,
  // since that would gain nothing.
  bool decomposed = false;
  // Returns the reason why no device of this machine can run the kernel, for a kernel that needs certain GPUs. Returns nullopt if
  // one can, or if there is no device to ask (e.g. a plan is made for another machine). The answer does not change while the
  // process runs. A null function: every device can.
  std::optional<std::string> (*why_not_here)() = nullptr;
};

// A row of a device's table. The rows of an op are adjacent: best first, the reference last.
struct OpKernel {
  std::string_view op;
  KernelImpl implementation;
};

}  // namespace genesis
