#include "executor/generation/row_adapters.h"

#include "executor/generation/entry_points.h"
#include "schema/core/error.h"

namespace genesis::generation {

RowAdapters::RowAdapters(Session& session, const std::vector<Row>& rows)
    : session_(session), rows_(rows), count_(adapters_of(session.model())) {}

void RowAdapters::check(int64_t adapter) const {
  if (adapter < 0 || adapter > count_)
    fail(
        "the request's adapter is {}, and the model has {} adapters: expected a number from 0, which means "
        "none, to {}",
        adapter, count_, count_);
}

// A row without a request writes the last token of its text again in each step, so that it keeps its adapter.
void RowAdapters::update() {
  if (count_ == 0) return;
  std::vector<int64_t> adapters;
  for (const Row& row : rows_) adapters.push_back(row.text->adapter);
  if (adapters == written_) return;
  session_.set_state(kAdapters, Tensor::of<int64_t>({std::ssize(adapters)}, adapters));
  written_ = adapters;
}

}  // namespace genesis::generation
