// The state that says which adapter each row of the cache has (kAdapters of executor/generation/entry_points.h).
#pragma once

#include <vector>

#include "executor/generation/cache_rows.h"
#include "executor/session.h"

namespace genesis::generation {

class RowAdapters {
 public:
  RowAdapters(Session& session, const std::vector<Row>& rows);
  // Throws Error if the model has no such adapter.
  void check(int64_t adapter) const;
  // Writes the adapters of the rows' texts, if they have changed. No step may be under way.
  void update();

 private:
  Session& session_;
  const std::vector<Row>& rows_;
  const int64_t count_;  // adapters of the model
  std::vector<int64_t> written_;
};

}  // namespace genesis::generation
