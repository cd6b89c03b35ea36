#include "executor/generation/prefix_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "executor/cache_pages.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::generation {
namespace {

uint64_t mixed(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 29);
}

template <class Unit>
uint64_t key_of(const Unit& unit) {
  uint64_t key = mixed(mixed(unit.before, unit.group), static_cast<uint64_t>(unit.adapter));
  for (const int64_t token : unit.tokens) key = mixed(key, static_cast<uint64_t>(token));
  return key;
}

}  // namespace

PrefixStore::PrefixStore(Session& session, int64_t bytes, int64_t unit)
    : session_(session), bytes_(bytes), unit_(unit) {
  if (bytes > 0 && cache_page_bytes(session.device()) == 0)
    fail("a cache of a session on '{}' cannot be copied to the host: prompts are not kept there",
         session.device());
}

PrefixStore::Unit* PrefixStore::find(uint64_t key, const Unit& wanted) {
  const auto found = units_.find(key);
  if (found == units_.end() || !found->second.is_same(wanted)) return nullptr;
  by_age_.erase(age(key, found->second));
  found->second.last_used = time_;
  by_age_.insert(age(key, found->second));
  return &found->second;
}

// Returns false if a unit fits only in place of one that was used just now.
bool PrefixStore::make_room() {
  while (used_ + unit_bytes_ > bytes_) {
    if (by_age_.empty() || std::get<0>(*by_age_.begin()) == time_) return false;
    units_.erase(std::get<2>(*by_age_.begin()));
    by_age_.erase(by_age_.begin());
    used_ -= unit_bytes_;
  }
  return true;
}

void PrefixStore::keep(uint64_t key, Unit made) {
  const Age its_age = age(key, made);
  const auto kept = units_.emplace(key, std::move(made)).first;
  try {
    by_age_.insert(its_age);
  } catch (...) {
    units_.erase(kept);
    throw;
  }
  used_ += unit_bytes_;
}

void PrefixStore::save_ended(std::vector<Row>& rows) noexcept {
  for (size_t r = 0; r < rows.size(); ++r)
    if (!rows[r].task && std::exchange(rows[r].is_unsaved, false)) save(*rows[r].text, r);
}

void PrefixStore::save(const Text& text, size_t row) noexcept {
  if (bytes_ == 0) return;
  try {
    save_units(text, row);
  } catch (const std::exception& error) {  // the text goes on without
    log_warning("a prompt is not kept for later requests: {}", error.what());
  }
}

// The caches' addresses are looked up anew, but for what is copied only: they change when a plan stores weights.
void PrefixStore::save_units(const Text& text, size_t row) {
  std::optional<CachePages> cache;
  ++time_;
  Unit unit{.group = text.group, .adapter = text.adapter, .tokens = {}};
  const int64_t end = std::min({text.shareable, text.cached - 1, text.size()});
  for (int64_t at = 0; at + unit_ <= end; at += unit_) {
    const auto tokens = text.tokens.begin() + at;
    unit.tokens.assign(tokens, tokens + unit_);
    const uint64_t key = key_of(unit);
    if (const Unit* known = find(key, unit)) {
      unit.before = known->number;
      continue;
    }
    if (units_.contains(key)) return;  // another unit has the same key
    if (!cache) {
      cache.emplace(session_, CachePages::Use::kCopiesOnly);
      unit_bytes_ = cache->saved_bytes(unit_) + unit_ * static_cast<int64_t>(sizeof(int64_t));
    }
    if (!make_room()) return;
    Unit made{++made_,      unit.before, unit.group,
              unit.adapter, unit.tokens, cache->save(static_cast<int64_t>(row), at, unit_),
              time_,        at / unit_};
    keep(key, std::move(made));
    unit.before = made_;
  }
}

void PrefixStore::load(Text& text, size_t row, const std::vector<int64_t>& prompt, int64_t most) {
  if (bytes_ == 0 || units_.empty()) return;
  std::optional<CachePages> cache;
  ++time_;
  Unit unit{.group = text.group, .adapter = text.adapter, .tokens = {}};
  for (int64_t at = 0; at + unit_ <= most; at += unit_) {
    const auto tokens = prompt.begin() + at;
    unit.tokens.assign(tokens, tokens + unit_);
    const Unit* known = find(key_of(unit), unit);
    if (!known) return;
    unit.before = known->number;
    if (at < text.cached) continue;
    if (!cache) cache.emplace(session_, CachePages::Use::kCopiesOnly);
    cache->load(static_cast<int64_t>(row), at, unit_, known->data.get());
    text.cached = text.shareable = at + unit_;
  }
}

}  // namespace genesis::generation
