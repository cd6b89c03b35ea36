// What a kernel is, on any device: a plain function over typed memory, found through an ordered list of
// implementations per op. A kernel never allocates, never throws and never sees the graph; whatever can fail
// is checked when the plan is made.
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
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};  // outermost first

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

TensorView view_of(const TensorType& type, void* data);
Tensor copy_of(const TensorView& view);  // of data in host memory

// Set by a kernel when data it was given cannot be used (an index out of range); the runner turns it into an
// Error that names the node. The first report wins; the kernel skips the element and goes on.
struct Fault {
  std::atomic<bool> set{false};
  int64_t value = 0, limit = 0;  // value is outside [0, limit)
  const char* what = nullptr;    // or this happened: a text that lives for ever

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

struct KernelContext {
  std::span<const TensorView> inputs, outputs;
  const void* attributes_ptr = nullptr;  // the op's typed struct
  const void* prepared_ptr = nullptr;    // what the implementation's prepare() made, or null
  std::byte* scratch = nullptr;          // scratch_bytes() of the implementation, aligned to 64
  Fault* fault = nullptr;                // never null in a run
  const void* launch = nullptr;          // where kernels of a GPU start: a cuda::Launch
  Collectives* collectives = nullptr;    // how ranks exchange data; null: there is one rank

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

struct KernelImpl {
  std::string_view name;  // a word that can be written on a command line: "split_keys"
  void (*run)(const KernelContext&);
  // Empty: can run. Null function: always can.
  std::optional<std::string> (*can_run)(const KernelQuery&) = nullptr;
  int64_t (*scratch_bytes)(const KernelQuery&) = nullptr;
  // Whatever is worth making once per step of a plan (matmul primitives, parsed programs, strides).
  std::shared_ptr<const void> (*prepare)(const KernelQuery&) = nullptr;
  // Of a kernel that has ways of its own, such as a matrix product: which it would take. Null: it has none.
  KernelChoice (*choose_inner)(const KernelQuery&) = nullptr;
  // It runs kernels of other ops one after the other: a node gains nothing by being one where this is its way.
  bool decomposed = false;
  // Of a row for some chips only: why no device of this machine is one. Null, or empty: one is, or there is no device to ask, as
  // where a plan is made for another machine. The answer is the same as long as the process runs.
  std::optional<std::string> (*why_not_here)() = nullptr;
};

// A row of a device's table. An op's rows stand together: best first, the reference last.
struct OpKernel {
  std::string_view op;
  KernelImpl way;
};

}  // namespace genesis
