// A bounded cache that evicts the least recently used value. A Session keeps its plans in one.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <utility>

namespace genesis {

// A value that somebody else holds too (use_count() > 1) is in use and is never evicted, so the bound can be exceeded.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(size_t most) : most_(most) {}

  // Returns null if the key is absent or was evicted.
  std::shared_ptr<Value> find(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    values_.splice(values_.begin(), values_, found->second);
    return values_.front().second;
  }

  void add(const Key& key, std::shared_ptr<Value> value) {
    values_.emplace_front(key, std::move(value));
    index_[key] = values_.begin();
    drop_oldest();
  }

  void clear() {
    index_.clear();
    values_.clear();
  }
  size_t size() const { return values_.size(); }
  template <class Body>
  void for_each(const Body& body) const {
    for (const auto& [key, value] : values_) body(std::as_const(*value));
  }

 private:
  void drop_oldest() {
    for (auto at = values_.end(); values_.size() > most_ && at != values_.begin();) {
      --at;
      if (at->second.use_count() > 1) continue;
      index_.erase(at->first);
      at = values_.erase(at);
    }
  }

  using Values = std::list<std::pair<Key, std::shared_ptr<Value>>>;  // most recently used first
  size_t most_;
  Values values_;
  std::map<Key, typename Values::iterator> index_;
};

}  // namespace genesis
