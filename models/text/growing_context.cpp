#include "models/text/growing_context.h"

#include <algorithm>

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

int64_t GrowingContext::positions() const { return grown_.value_or(positions_of_cache(*model_)); }

const std::shared_ptr<const Model>& GrowingContext::model() {
  if (grown_) model_ = models::with_cache(*model_, rows_of_cache(*model_), *grown_);
  grown_.reset();
  return model_;
}

// The session rewrites the model for the longer cache that its plans use. The copy here follows when somebody asks for it.
void GrowingContext::make_room(int64_t tokens) {
  const int64_t now = positions(), wanted = std::max(now, models::positions_for(*model_, tokens));
  if (wanted == now) return;
  if (!generator_) return set_model(models::with_room(model_, tokens));
  if (options_.mesh.ranks() > 1) {
    const std::shared_ptr<const Model> larger = models::with_room(model_, tokens);
    reopen(larger);
    model_ = larger;
  } else {
    generator_->grow(wanted);
    grown_ = wanted;
  }
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
