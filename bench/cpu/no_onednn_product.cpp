// Stands for oneDNN, a peer of bench/cpu/matmul.cpp, in a build without it.
#include "bench/cpu/onednn_product.h"

namespace genesis::bench {

struct OneDnnProduct::State {};

OneDnnProduct::OneDnnProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
OneDnnProduct::~OneDnnProduct() = default;

std::unique_ptr<const OneDnnProduct> OneDnnProduct::create(const cpu::GemmProblem&) { return nullptr; }

// Nobody has a OneDnnProduct to call these of.
void OneDnnProduct::run(const void*, const void*, void*) const {}
const std::string& OneDnnProduct::implementation() const {
  static const std::string none;
  return none;
}

}  // namespace genesis::bench
