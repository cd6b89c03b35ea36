// oneDNN's matmul primitive on all cores, as a peer in bench/cpu/matmul.cpp. Operands and result have our memory layout, and
// packing is included in the time, since weights that change every step cannot be packed ahead.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace genesis::bench {

class OneDnnProduct {
 public:
  // Returns null if oneDNN has no primitive for these types on this CPU.
  static std::unique_ptr<const OneDnnProduct> create(const cpu::GemmProblem& problem);
  ~OneDnnProduct();

  void run(const void* a, const void* b, void* c) const;
  const std::string& implementation() const;  // oneDNN's name: "brg:avx512_core", "gemm:jit"

 private:
  struct State;
  explicit OneDnnProduct(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace genesis::bench
