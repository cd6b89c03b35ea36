// Stands for oneDNN in a build without it: every product is declined, and our own kernels take it.
#include "backends/cpu/onednn/onednn.h"

namespace genesis::cpu::onednn {

std::string why_missing() {
  return "this build has no oneDNN; install libdnnl-dev and configure with -Donednn=enabled";
}
std::string why_no_amx_bf16() { return why_missing(); }

struct TileProduct::State {};

TileProduct::TileProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
TileProduct::~TileProduct() = default;

std::unique_ptr<const TileProduct> TileProduct::create(const TileShape&, DType, const TileProduct*) {
  return nullptr;
}

// Nobody has a TileProduct to call these of.
int64_t TileProduct::packed_b_bytes() const { return 0; }
int64_t TileProduct::workspace_bytes() const { return 0; }
void TileProduct::pack_b(const void*, void*, void*) const {}
void TileProduct::multiply(const void*, const void*, float*, void*) const {}

}  // namespace genesis::cpu::onednn
