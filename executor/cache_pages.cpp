#include "executor/cache_pages.h"

#include <algorithm>
#include <cstring>

#include "executor/runtime/aligned_memory.h"
#include "executor/session_impl.h"
#include "schema/core/checked_size.h"
#include "schema/graph/caches.h"

namespace genesis {
namespace {

// Returns true if the positions of a row lie one after the other.
bool has_positions(const CacheLayout& layout) { return layout.rows_axis == 0 && layout.positions_axis == 1; }

void check_can_be_paged(const Session& session, const SessionOptions& options) {
  if (cache_page_bytes(session.device()) == 0)
    fail("the cache of a session on '{}' has no pages: give its rows memory for their longest texts",
         session.device());
  if (options.mesh.ranks() > 1)
    fail(
        "the cache of a session of several ranks has no pages: give its rows memory for their longest texts");
  for (const State& state : session.model().states())
    if (const auto layout = cache_layout(state);
        layout && (layout->rows_axis != 0 || layout->positions_axis > 1))
      fail(
          "the cache '{}' has its rows on axis {} and its positions on axis {}: only caches with rows on "
          "axis 0 and "
          "positions on axis 1 have pages",
          state.name, layout->rows_axis, layout->positions_axis);
}

}  // namespace

int64_t cache_page_bytes(const std::string& device) { return device == "cpu" ? memory_page_bytes() : 0; }

int64_t paged_row_bytes(const Model& model, int64_t positions, int64_t page_bytes) {
  CheckedSize bytes = 0;
  for (const State& state : model.states()) {
    const auto layout = cache_layout(state);
    if (!layout) continue;
    CacheSize size = {.rows = 1, .positions = std::max<int64_t>(positions, 1)};
    bytes += CheckedSize(cache_type(state, size).bytes()).rounded_up(page_bytes) + page_bytes;
  }
  return bytes.value();
}

CachePages::CachePages(Session& session, Use use)
    : session_(session), page_bytes_(cache_page_bytes(session.device())) {
  Session::Impl& impl = *session.impl_;
  const OneCall call = impl.one_call();
  check_can_be_paged(session, impl.options());
  impl.check_idle();
  std::vector<int32_t> caches;
  for (int32_t i = 0; i < static_cast<int32_t>(session.model().states().size()); ++i)
    if (cache_layout(session.model().state(i))) caches.push_back(i);
  impl.states().make_writable(caches);
  for (const int32_t i : caches) {
    const State& state = session.model().state(i);
    const Shape& shape = state.type.shape;
    Rows rows = {.data = impl.states().data(i), .row_bytes = state.type.bytes() / shape[0].value()};
    if (has_positions(*cache_layout(state))) rows.position_bytes = rows.row_bytes / shape[1].value();
    states_.push_back(rows);
    if (use == Use::kCopiesOnly) continue;
    use_small_pages(rows.data, state.type.bytes());
    clear_pages(rows.data, state.type.bytes());
  }
}

void CachePages::keep(int64_t row, int64_t positions) {
  const OneCall call = session_.impl_->one_call();
  for (const Rows& rows : states_)
    if (const int64_t kept = positions * rows.position_bytes;
        rows.position_bytes > 0 && kept < rows.row_bytes)
      clear_pages(rows.row(row) + kept, rows.row_bytes - kept);
}

void CachePages::copy(int64_t from, int64_t to, int64_t positions) {
  const OneCall call = session_.impl_->one_call();
  for (const Rows& rows : states_) {
    const int64_t bytes = rows.position_bytes > 0 ? positions * rows.position_bytes : rows.row_bytes;
    std::memcpy(rows.row(to), rows.row(from), static_cast<size_t>(std::min(bytes, rows.row_bytes)));
  }
}

int64_t CachePages::saved_bytes(int64_t count) const {
  int64_t bytes = 0;
  for (const Rows& rows : states_) bytes += count * rows.position_bytes;
  return bytes;
}

std::unique_ptr<std::byte[]> CachePages::save(int64_t row, int64_t first, int64_t count) const {
  const OneCall call = session_.impl_->one_call();
  auto saved = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(saved_bytes(count)));
  std::byte* to = saved.get();
  for (const Rows& rows : states_) {
    const int64_t bytes = count * rows.position_bytes;
    std::memcpy(to, rows.row(row) + first * rows.position_bytes, static_cast<size_t>(bytes));
    to += bytes;
  }
  return saved;
}

void CachePages::load(int64_t row, int64_t first, int64_t count, const std::byte* data) {
  const OneCall call = session_.impl_->one_call();
  for (const Rows& rows : states_) {
    const int64_t bytes = count * rows.position_bytes;
    std::memcpy(rows.row(row) + first * rows.position_bytes, data, static_cast<size_t>(bytes));
    data += bytes;
  }
}

}  // namespace genesis
