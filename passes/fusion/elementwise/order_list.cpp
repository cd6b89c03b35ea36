#include "passes/fusion/elementwise/order_list.h"

namespace genesis::passes {
namespace {

constexpr int kBits = 62;  // bits of a label
constexpr double kMaxDensity =
    0.75;  // densest allowed filling of a range of two labels; each doubling of the range multiplies it by this

}  // namespace

OrderList::OrderList(size_t count) : links_(count + 1), end_(static_cast<int32_t>(count)) {
  const uint64_t step = (uint64_t{1} << kBits) / (count + 1);
  for (int32_t i = 0; i <= end_; ++i) links(i) = {i - 1, i + 1, static_cast<uint64_t>(i + 1) * step};
  links(0).before = end_;
  links(end_) = {end_ - 1, 0, 0};
  if (count == 0) links(end_) = {end_, end_, 0};
}

void OrderList::erase(int32_t member) {
  const Links& at = links(member);
  links(at.before).after = at.after;
  links(at.after).before = at.before;
}

// The list's end counts as label 0 before the first member and as the highest label behind the last.
void OrderList::insert_after(int32_t member, int32_t place) {
  const auto room = [&] {
    const int32_t next = links(place).after;
    return (is_inner(next) ? label(next) : uint64_t{1} << kBits) - label(place);
  };
  if (room() < 2) make_room_after(place);
  const int32_t next = links(place).after;
  links(member) = {place, next, label(place) + room() / 2};
  links(place).after = member;
  links(next).before = member;
}

void OrderList::make_room_after(int32_t member) {
  if (!is_inner(member)) member = links(member).after;
  int32_t first = member, last = member;
  uint64_t count = 1;
  double density = kMaxDensity;
  for (int bits = 1; bits <= kBits; ++bits, density *= kMaxDensity) {
    const uint64_t length = uint64_t{1} << bits, begin = label(member) & ~(length - 1);
    for (; is_inner(links(first).before) && label(links(first).before) >= begin; ++count)
      first = links(first).before;
    for (; is_inner(links(last).after) && label(links(last).after) < begin + length; ++count)
      last = links(last).after;
    if (bits<kBits&& static_cast<double>(count)> density * static_cast<double>(length)) continue;
    const uint64_t step = length / (count + 1);
    if (step < 2) continue;
    uint64_t next = begin;
    for (int32_t i = first; count > 0; --count, i = links(i).after) links(i).label = next += step;
    return;
  }
}

}  // namespace genesis::passes
