// A list of numbers that tells in constant time which of two comes first, while members are inserted and erased.
//
// Every member has a label; labels increase along the list. If there is no label left between two neighbors, the smallest range
// around them that is not too dense gets new, evenly spaced labels (Bender, Cole, Demaine, Farach-Colton and Zito, Two
// Simplified Algorithms for Maintaining Order in a List, 2002).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::passes {

class OrderList {
 public:
  explicit OrderList(size_t count);  // 0, 1, 2, ...

  bool is_before(int32_t a, int32_t b) const { return label(a) < label(b); }
  void erase(int32_t member);
  // Inserts a member that is not in the list.
  void insert_after(int32_t member, int32_t place);
  void insert_before(int32_t member, int32_t place) { insert_after(member, links(place).before); }

 private:
  struct Links {
    int32_t before, after;
    uint64_t label;
  };

  Links& links(int32_t member) { return links_[static_cast<size_t>(member)]; }
  uint64_t label(int32_t member) const { return links_[static_cast<size_t>(member)].label; }
  void make_room_after(int32_t member);
  bool is_inner(int32_t member) const { return member != end_; }

  std::vector<Links> links_;  // by member; the last one is both ends of the list
  int32_t end_;
};

}  // namespace genesis::passes
