#include "executor/cache_pages.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "executor/runtime/aligned_memory.h"
#include "executor/runtime/mapped_rows.h"
#include "executor/runtime/page_mapper.h"
#include "executor/session_impl.h"
#include "schema/core/checked_size.h"
#include "schema/graph/caches.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

// Returns true if the positions of a row lie one after the other.
bool has_positions(const CacheLayout& layout) { return layout.rows_axis == 0 && layout.positions_axis == 1; }

bool has_rows_first(const State& state) {
  const auto layout = cache_layout(state);
  return !layout || (layout->rows_axis == 0 && layout->positions_axis <= 1);
}

void check_can_be_paged(const Session& session, const SessionOptions& options) {
  if (cache_page_bytes(session.device()) == 0)
    fail("the cache of a session on '{}' has no pages: give its rows memory for their longest texts",
         session.device());
  if (options.mesh.ranks() > 1)
    fail(
        "the cache of a session of several ranks has no pages: give its rows memory for their longest texts");
  for (const State& state : session.model().states())
    if (const auto layout = cache_layout(state); !has_rows_first(state))
      fail(
          "the cache '{}' has its rows on axis {} and its positions on axis {}: only caches with rows on "
          "axis 0 and "
          "positions on axis 1 have pages",
          state.name, layout->rows_axis, layout->positions_axis);
}

}  // namespace

int64_t cache_page_bytes(const std::string& device) {
  if (const int64_t mapped = mapped_page_bytes(device); mapped > 0) return mapped;
  return device == "cpu" ? memory_page_bytes() : 0;
}

bool are_mapped_pages(int64_t page_bytes) { return page_bytes > memory_page_bytes(); }

namespace {

int64_t bytes_of_row(const State& state, int64_t positions) {
  return cache_type(state, {.rows = 1, .positions = positions}).bytes();
}

// Returns what a state takes whose pages a GPU maps.
int64_t mapped_bytes(const State& state, int64_t positions, int64_t capacity, int64_t page) {
  const int64_t all = bytes_of_row(state, capacity);
  if (cache_layout(state)->positions_axis < 0 || all % page != 0) return all;
  return (all / capacity * std::min(positions, capacity) + page - 1) / page * page;
}

}  // namespace

int64_t paged_row_bytes(const Model& model, int64_t positions, int64_t capacity, int64_t page_bytes) {
  CheckedSize bytes = 0;
  for (const State& state : model.states()) {
    if (!cache_layout(state)) continue;
    if (are_mapped_pages(page_bytes))
      bytes += mapped_bytes(state, positions, capacity, page_bytes);
    else
      bytes += CheckedSize(bytes_of_row(state, std::max<int64_t>(positions, 1))).rounded_up(page_bytes) +
               page_bytes;
  }
  return bytes.value();
}

int64_t whole_page_positions(const Model& model, int64_t positions, int64_t page_bytes) {
  int64_t largest = 0;
  for (const State& state : model.states())
    if (const auto layout = cache_layout(state); layout && layout->positions_axis >= 0)
      largest = std::max(largest, bytes_of_row(state, 2) - bytes_of_row(state, 1));
  if (!are_mapped_pages(page_bytes) || largest == 0) return positions;
  const int64_t unit = page_bytes / std::gcd(page_bytes, largest),
                whole = (positions + unit - 1) / unit * unit;
  return whole <= 2 * positions ? whole : positions;
}

namespace {

std::shared_ptr<PageMapper> cpu_mapper;

}  // namespace

void map_pages_of_cpu_by(std::shared_ptr<PageMapper> mapper) { cpu_mapper = std::move(mapper); }

bool CachePages::can_copy(const Session& session) {
  return cache_page_bytes(session.device()) > 0 && session.impl_->options().mesh.ranks() == 1 &&
         std::ranges::all_of(session.model().states(), has_rows_first);
}

CachePages::CachePages(Session& session, Use use, int64_t bytes)
    : session_(session),
      mapper_(session.device() == "cpu"
                  ? cpu_mapper
                  : open_page_mapper(session.device(), session.impl_->device().stream())),
      page_bytes_(mapper_ ? mapper_->page_bytes() : cache_page_bytes(session.device())) {
  Session::Impl& impl = *session.impl_;
  const OneCall call = impl.one_call();
  check_can_be_paged(session, impl.options());
  impl.check_idle();
  if (const auto size = cache_size(session.model())) capacity_ = size->positions;
  for (int32_t i = 0; i < static_cast<int32_t>(session.model().states().size()); ++i)
    if (cache_layout(session.model().state(i))) add_rows(i);
  if (use == Use::kCopiesOnly)
    find_rows();
  else if (mapper_)
    map_pages(bytes);
  else
    take_pages();
}

void CachePages::find_rows() {
  Session::Impl& impl = *session_.impl_;
  std::vector<int32_t> caches;
  for (const Rows& rows : states_) caches.push_back(rows.state);
  impl.device().enter([&] { impl.states().make_writable(caches); });
  for (Rows& rows : states_) rows.data = impl.states().data(rows.state);
}

// Addresses that are mapped to others' pages mean nothing to a session without them.
CachePages::~CachePages() {
  if (!mapped_) return;
  std::map<int32_t, DeviceMemory> none;
  for (const Rows& rows : states_) none[rows.state] = nullptr;
  session_.impl_->memory().place_caches(none);
}

void CachePages::add_rows(int32_t index) {
  const State& state = session_.model().state(index);
  const Shape& shape = state.type.shape;
  count_ = shape[0].value();
  Rows rows = {.state = index, .row_bytes = state.type.bytes() / count_};
  if (has_positions(*cache_layout(state))) {
    rows.position_bytes = rows.row_bytes / shape[1].value();
  }
  states_.push_back(rows);
}

void CachePages::take_pages() {
  Session::Impl& impl = *session_.impl_;
  std::map<int32_t, DeviceMemory> memory;
  for (Rows& rows : states_) {
    const int64_t bytes = count_ * rows.row_bytes;
    const DeviceMemory& own = memory[rows.state] = impl.device().allocate(bytes);
    rows.data = own.get();
    use_small_pages(rows.data, bytes);
  }
  impl.memory().place_caches(memory);
}

void CachePages::log_without_pages() const {
  const auto rows = std::ranges::max_element(states_, {}, &Rows::position_bytes);
  if (rows == states_.end() || rows->position_bytes == 0) return;
  log_warning(
      "the rows of the cache are not paged, each has memory for its {} positions: '{}' has {} bytes a "
      "position, "
      "so that a row is whole pages of {} bytes for multiples of {} positions alone",
      capacity_, session_.model().state(rows->state).name, rows->position_bytes, page_bytes_,
      page_bytes_ / std::gcd(page_bytes_, rows->position_bytes));
}

void CachePages::map_pages(int64_t bytes) {
  Session::Impl& impl = *session_.impl_;
  std::map<int32_t, DeviceMemory> memory;
  std::vector<MappedRows::Cache> mapped;
  for (Rows& rows : states_)
    if (is_mapped(rows))
      mapped.push_back({session_.model().state(rows.state).type.dtype, rows.row_bytes, rows.position_bytes});
    else
      memory[rows.state] = impl.device().allocate(count_ * rows.row_bytes);
  if (mapped.empty()) log_without_pages();
  const bool shares = bytes > 0 && !mapped.empty();
  const int64_t shared = std::max<int64_t>(bytes - count_ * row_bytes(0), 0);
  mapped_ = std::make_shared<MappedRows>(mapper_, mapped, count_, shares ? shared / page_bytes_ : 0);
  size_t next = 0;
  for (Rows& rows : states_) {
    if (is_mapped(rows)) memory[rows.state] = DeviceMemory(mapped_, mapped_->at(next++));
    rows.data = memory[rows.state].get();
  }
  impl.memory().place_caches(memory);
}

void CachePages::keep(int64_t row, int64_t positions) {
  const OneCall call = session_.impl_->one_call();
  if (mapped_) return mapped_->set(row, positions);
  for (const Rows& rows : states_)
    if (const int64_t kept = positions * rows.position_bytes;
        rows.position_bytes > 0 && kept < rows.row_bytes)
      clear_pages(rows.row(row) + kept, rows.row_bytes - kept);
}

void CachePages::copy(int64_t from, int64_t to, int64_t positions) {
  const OneCall call = session_.impl_->one_call();
  for (const Rows& rows : states_) {
    const int64_t all = rows.position_bytes > 0 ? positions * rows.position_bytes : rows.row_bytes;
    const int64_t bytes = std::min(all, rows.row_bytes);
    if (mapper_)
      mapper_->copy(rows.row(to), rows.row(from), bytes);
    else
      std::memcpy(rows.row(to), rows.row(from), static_cast<size_t>(bytes));
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
    session_.impl_->device().download(to, rows.row(row) + first * rows.position_bytes, bytes);
    to += bytes;
  }
  return saved;
}

void CachePages::load(int64_t row, int64_t first, int64_t count, const std::byte* data) {
  const OneCall call = session_.impl_->one_call();
  for (const Rows& rows : states_) {
    const int64_t bytes = count * rows.position_bytes;
    session_.impl_->device().upload(rows.row(row) + first * rows.position_bytes, data, bytes);
    data += bytes;
  }
}

}  // namespace genesis
