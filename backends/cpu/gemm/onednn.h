// All that this backend uses of oneDNN, behind one door: the API differs between 2.6 and 3.x, and a library
// built for OpenMP must be kept from making threads of its own. Used by gemm_onednn.cpp, which runs one
// primitive per TBB task.
#pragma once

#include <cstdint>
#include <memory>

#include "schema/core/dtype.h"

namespace genesis::cpu::onednn {

bool cpu_has_amx_bf16();  // and oneDNN uses it

// sums = A B in f32, for one tile of fixed size whose B was brought into oneDNN's own layout before.
struct TileShape {
  int64_t m, n, k;
  int64_t lda;
  bool transpose_a;
  int64_t ldb;
  bool transpose_b;
  int64_t ld_sums;
};

class TileProduct {
 public:
  // nullptr where oneDNN has no such primitive. With `like`, B is in the layout that `like` wants.
  static std::unique_ptr<const TileProduct> create(const TileShape& shape, DType type,
                                                   const TileProduct* like);
  ~TileProduct();

  int64_t packed_b_bytes() const;
  int64_t workspace_bytes() const;  // of multiply() and of pack_b()
  void pack_b(const void* b, void* packed, void* workspace) const;
  void multiply(const void* a, const void* packed_b, float* sums, void* workspace) const;

 private:
  struct State;
  explicit TileProduct(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace genesis::cpu::onednn
