#include "models/text/growing_context.h"

#include "models/generation/sampling_entries.h"
#include "models/zoo.h"

namespace genesis::text {

Session& GrowingContext::session() {
  generator();
  return *session_;
}

Generator& GrowingContext::generator() {
  if (!generator_) open(model_);
  return *generator_;
}

void GrowingContext::make_room(int64_t tokens) {
  const std::shared_ptr<const Model> larger = models::with_room(model_, tokens);
  if (larger == model_) return;
  if (!generator_) return set_model(larger);
  if (options_.mesh.ranks() > 1)
    reopen(larger);
  else
    generator_->grow(positions_of_cache(*larger));
  model_ = larger;
  if (on_growth_) on_growth_(generator_->capacity());
}

void GrowingContext::reopen(const std::shared_ptr<const Model>& larger) {
  try {
    open(larger);
  } catch (const Error&) {
    open(model_);
    throw;
  }
}

// Frees the old session first: the device may not have memory for two.
void GrowingContext::open(const std::shared_ptr<const Model>& model) {
  generator_.reset();
  session_.reset();
  session_.emplace(open_for_generation(model, options_, generating_.drafter != nullptr));
  generator_.emplace(*session_, generating_);
}

}  // namespace genesis::text
