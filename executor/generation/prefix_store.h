// Keeps what the KV cache held of earlier prompts when their rows have gone to others, in memory of the host, so that a conversation
// that comes back after many others is not read again.
//
// Prompts are cut into units of the largest chunk. A unit is found by a hash of its tokens and of the number of the unit before it, and
// both are compared on a hit, so that no collision can take one text for another; the first unit of a prompt has its Request::group
// and its adapter instead. Prompts that begin alike share units. What a unit holds is shareable in the sense of
// executor/generation/prefixes.h, so that a text has the same bits with or without it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "executor/generation/cache_rows.h"

namespace genesis::generation {

class PrefixStore {
 public:
  // `bytes`: the memory of all units; 0: nothing is kept. `unit`: tokens of a unit. `session` must outlive this object. Throws Error if bytes are given and the device's cache cannot be copied by the host.
  PrefixStore(Session& session, int64_t bytes, int64_t unit);

  // Does what save() does for rows whose requests have ended. Their texts stay in them until other requests get these; no step may
  // be under way.
  void save_ended(std::vector<Row>& rows) noexcept;
  // Keeps the shareable tokens of a row's text, or those that there is memory for. Units that were used least recently make room.
  void save(const Text& text, size_t row) noexcept;
  // Gives a row's text, whose group and adapter are set, what is kept of the prompt behind the tokens that the cache holds, up to
  // its first `most` tokens.
  void load(Text& text, size_t row, const std::vector<int64_t>& prompt, int64_t most);
  int64_t used() const { return used_; }  // bytes

 private:
  struct Unit {
    uint64_t number = 0, before = 0;  // its own, from 1, which none has again, and that of the unit before it
    uint64_t group = 0;
    int64_t adapter = 0;
    std::vector<int64_t> tokens;
    std::unique_ptr<std::byte[]> data = {};
    uint64_t last_used = 0;
    int64_t place = 0;  // among the units of a text
    bool is_same(const Unit& other) const {
      return before == other.before && group == other.group && adapter == other.adapter &&
             tokens == other.tokens;
    }
  };
  // Units are given up by age, and of one age the last ones of a text first: none is left without those before it.
  using Age = std::tuple<uint64_t, int64_t, uint64_t>;  // last use, place from the end, key
  static Age age(uint64_t key, const Unit& unit) { return {unit.last_used, -unit.place, key}; }
  Unit* find(uint64_t key, const Unit& wanted);
  bool make_room();
  void save_units(const Text& text, size_t row);
  void keep(uint64_t key, Unit made);

  Session& session_;
  const int64_t bytes_, unit_;
  int64_t unit_bytes_ = 0, used_ = 0;
  uint64_t time_ = 0, made_ = 0;
  std::unordered_map<uint64_t, Unit> units_;
  std::set<Age> by_age_;
};

}  // namespace genesis::generation
