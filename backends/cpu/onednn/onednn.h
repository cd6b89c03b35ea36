// All that this backend uses of oneDNN, behind one door: the API differs between 2.6 and 3.x, a library built for
// OpenMP must be kept from making threads of its own, and a build may have none (no_onednn.cpp). Used by
// gemm_onednn.cpp, which runs one primitive per TBB task.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "schema/core/dtype.h"

namespace genesis::cpu::onednn {

// Empty: this build has oneDNN. Otherwise that it has not, and how to change that.
std::string why_missing();
// Empty: this CPU has AMX for bf16, and oneDNN is there and uses it. Otherwise why not.
std::string why_no_amx_bf16();

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
