// Times one op on its own memory; the benches of memory-bound kernels consist of such cases. A case counts only the bytes that
// must move (each input read once, each result written once) and is compared with the bandwidth measured in the same run.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/peaks.h"
#include "backends/kernel_table.h"

namespace genesis::bench {

// Page-aligned memory, written by all threads so that its pages exist, with varying small numbers.
class Memory {
 public:
  explicit Memory(const TensorType& type) : bytes_((type.bytes() + kPage) / kPage * kPage) {
    data_ = new (std::align_val_t(kPage)) std::byte[static_cast<size_t>(bytes_)];
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, bytes_ / kPage), [&](const auto& range) {
      for (int64_t page = range.begin(); page < range.end(); ++page) fill(type.dtype, page);
    });
  }
  Memory(Memory&& other) noexcept : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  ~Memory() { operator delete[](data_, std::align_val_t(kPage)); }
  std::byte* data() const { return data_; }

 private:
  static constexpr int64_t kPage = 4096;

  void fill(DType dtype, int64_t page) {
    std::byte* at = data_ + page * kPage;
    dispatch(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (size_t i = 0; i < kPage / sizeof(T); ++i) {
        const auto step = static_cast<float>((static_cast<size_t>(page) * 7 + i * 37) % 64);
        const T value = is_float(dtype) ? T(step / 32) : T(step);  // classes, steps: integers below 64
        std::memcpy(at + i * sizeof(T), &value, sizeof(T));
      }
    });
  }

  int64_t bytes_;
  std::byte* data_ = nullptr;
};

enum class Limit { kCopy, kRead };

// One op on its own tensors.
class Case {
 public:
  Case(std::string what, const char* op, Attributes attributes, std::vector<TensorType> inputs, Limit limit)
      : what_(std::move(what)),
        op_(find_op(op)),
        attributes_(std::move(attributes)),
        types_(std::move(inputs)),
        limit_(limit) {
    result_types_ = infer_types(*op_, attributes_, types_);
    const KernelQuery query{*op_, attributes_, types_, result_types_};
    kernel_ = &select_kernel(cpu::kernels_for(op), query);
    parsed_ = op_->parse(attributes_);
    scratch_bytes_ = kernel_->scratch_bytes ? kernel_->scratch_bytes(query) : 0;
    if (kernel_->prepare) prepared_ = kernel_->prepare(query);
    for (const auto* types : {&types_, &result_types_})
      for (const TensorType& type : *types) bytes_ += type.bytes();
  }

  // Keeps the best of the runs that fit into the time; memory is held only during the call.
  void run_for(double seconds) {
    std::vector<Memory> memory;
    std::vector<TensorView> in, out;
    for (const TensorType& type : types_) in.push_back(view_of(type, memory.emplace_back(type).data()));
    for (const TensorType& type : result_types_)
      out.push_back(view_of(type, memory.emplace_back(type).data()));
    const Memory scratch({DType::u8, {scratch_bytes_}});
    Fault fault;
    const KernelContext context{.inputs = in,
                                .outputs = out,
                                .attributes_ptr = parsed_.get(),
                                .prepared_ptr = prepared_.get(),
                                .scratch = scratch.data(),
                                .fault = &fault};
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto begin = now();
    do {
      const auto start = now();
      kernel_->run(context);
      best_seconds_ = std::min(best_seconds_, std::chrono::duration<double>(now() - start).count());
    } while (std::chrono::duration<double>(now() - begin).count() < seconds);
  }

  const std::string& what() const { return what_; }
  std::string type() const { return types_[0].to_string(); }
  double gbps() const { return static_cast<double>(bytes_) / best_seconds_ * 1e-9; }
  double share(const cpu::Peaks& peaks) const {
    return gbps() / (limit_ == Limit::kCopy ? peaks.copy_gbps : peaks.read_gbps);
  }
  const char* limit() const { return limit_ == Limit::kCopy ? "copy" : "read"; }

 private:
  std::string what_;
  const OpDef* op_;
  Attributes attributes_;
  std::vector<TensorType> types_, result_types_;
  Limit limit_;
  const KernelImpl* kernel_;
  std::shared_ptr<const void> parsed_, prepared_;
  int64_t scratch_bytes_ = 0, bytes_ = 0;
  double best_seconds_ = 1e30;
};

// Runs every case in turn with the limits, and prints ratios: the main() of a bench. Options: [--json FILE] [--rounds N].
int run_cases(int argc, char** argv, const char* what, std::vector<Case> cases);

}  // namespace genesis::bench
