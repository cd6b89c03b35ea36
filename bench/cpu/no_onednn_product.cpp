// Replaces oneDNN, a peer in bench/cpu/matmul.cpp, in a build without it.
#include "bench/cpu/onednn_product.h"

namespace genesis::bench {

struct OneDnnProduct::State {};

OneDnnProduct::OneDnnProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
OneDnnProduct::~OneDnnProduct() = default;

std::unique_ptr<const OneDnnProduct> OneDnnProduct::create(const cpu::GemmProblem&) { return nullptr; }

// Never called, since create() returns null.
void OneDnnProduct::run(const void*, const void*, void*) const {}
const std::string& OneDnnProduct::implementation() const {
  static const std::string none;
  return none;
}

}  // namespace genesis::bench
