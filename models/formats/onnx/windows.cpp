#include "models/formats/onnx/windows.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::models::onnx {
namespace {

constexpr size_t kMaxPlaces = 4096;  // the largest window

int64_t reach_of(const WindowAttributes& w, size_t axis) {
  return (w.window[axis] - 1) * w.dilation[axis] + 1;
}

// Padding so that there are size / stride positions, rounded up.
void pad_to_same(WindowAttributes& w, Value x, bool upper) {
  for (size_t i = 0; i < w.window.size(); ++i) {
    const Dim& size = x.dim(static_cast<int64_t>(i) + 2);
    int64_t total = reach_of(w, i) - 1;
    if (w.stride[i] != 1) {
      const int64_t positions = (size.value() + w.stride[i] - 1) / w.stride[i];
      total = std::max<int64_t>((positions - 1) * w.stride[i] + reach_of(w, i) - size.value(), 0);
    }
    w.before[i] = upper ? total / 2 : total - total / 2;
    w.after[i] = total - w.before[i];
  }
}

// With ceil_mode a last window may hang over the end, if it begins in x or in the padding before it.
void add_overhang(WindowAttributes& w, Value x) {
  for (size_t i = 0; i < w.window.size(); ++i) {
    if (w.stride[i] == 1) continue;
    const int64_t size = x.dim(static_cast<int64_t>(i) + 2).value();
    const int64_t free = size + w.before[i] + w.after[i] - reach_of(w, i);
    int64_t positions = (free + w.stride[i] - 1) / w.stride[i] + 1;
    if ((positions - 1) * w.stride[i] >= size + w.before[i]) --positions;
    w.overhang[i] = (positions - 1) * w.stride[i] - free;
    w.overhangs |= w.overhang[i] != 0;
  }
}

Value padded(Value x, const WindowAttributes& w, double value, bool with_overhang) {
  std::vector<int64_t> before(static_cast<size_t>(x.rank())), after = before;
  for (size_t i = 0; i < w.window.size(); ++i) {
    before[i + 2] = w.before[i];
    after[i + 2] = w.after[i] + (with_overhang ? w.overhang[i] : 0);
  }
  return pad(x, before, after, value);
}

}  // namespace

bool WindowAttributes::is_small() const {
  for (size_t i = 0; i < window.size(); ++i)
    if (std::max(before[i], after[i]) > window[i] / 2) return false;
  return !crops();
}

bool WindowAttributes::crops() const {
  const auto is_negative = [](int64_t amount) { return amount < 0; };
  return std::ranges::any_of(before, is_negative) || std::ranges::any_of(after, is_negative);
}

WindowAttributes WindowAttributes::without_padding() const {
  WindowAttributes w = *this;
  std::ranges::fill(w.before, 0);
  std::ranges::fill(w.after, 0);
  return w;
}

WindowAttributes plain_windows(Call& call, const std::vector<int64_t>& window) {
  const size_t count = window.size();
  const std::vector<int64_t> ones(count, 1), pads = call.list("pads", std::vector<int64_t>(2 * count, 0));
  WindowAttributes w{window, call.list("strides", ones), call.list("dilations", ones), {}, {}, {}};
  if (w.stride.size() != count || w.dilation.size() != count || pads.size() != 2 * count)
    fail("it has {} strides, {} dilations and {} pads for {} axes", w.stride.size(), w.dilation.size(),
         pads.size(), count);
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(count));
  w.after.assign(pads.begin() + static_cast<int64_t>(count), pads.end());
  w.overhang.assign(count, 0);
  for (size_t i = 0; i < count; ++i)
    if (w.window[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.window[i] > kMaxWindow ||
        w.stride[i] > kMaxWindow || w.dilation[i] > kMaxWindow || std::abs(w.before[i]) > kMaxWindow ||
        std::abs(w.after[i]) > kMaxWindow)
      fail("a window of {} with stride {}, dilation {} and padding {} and {} is out of range", w.window[i],
           w.stride[i], w.dilation[i], w.before[i], w.after[i]);
  return w;
}

WindowAttributes windows_of(Call& call, Value x, const std::vector<int64_t>& window) {
  if (x.rank() != static_cast<int>(window.size()) + 2)
    fail("a window of {} axes moves over {}", window.size(), x.type().to_string());
  WindowAttributes w = plain_windows(call, window);
  const std::string kind = call.text("auto_pad", "NOTSET");
  if (kind == "SAME_UPPER" || kind == "SAME_LOWER") {
    pad_to_same(w, x, kind == "SAME_UPPER");
  } else if (kind == "VALID") {
    w = w.without_padding();
  } else if (kind != "NOTSET" && !kind.empty()) {
    fail("its attribute 'auto_pad' is '{}'", kind);
  }
  if (call.attribute("ceil_mode", 0) != 0) add_overhang(w, x);
  return w;
}

Value padded_by(Value x, const WindowAttributes& w, double value) { return padded(x, w, value, false); }
Value padded_for(Value x, const WindowAttributes& w, double value) { return padded(x, w, value, true); }

std::vector<Value> places_in_windows(Value padded, const WindowAttributes& w) {
  std::vector<Value> places = {padded};
  for (size_t i = 0; i < w.window.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    std::vector<Value> next;
    for (const Value& place : places)
      for (int64_t at = 0; at < w.window[i]; ++at) {
        const int64_t begin = at * w.dilation[i];
        const Dim free = place.dim(axis) - reach_of(w, i);
        const Dim length = w.stride[i] == 1 ? free + 1 : Dim((free.value() / w.stride[i]) * w.stride[i] + 1);
        const Value run = narrow(place, axis, begin, length);
        next.push_back(w.stride[i] == 1 ? run : slice(run, axis, 0, kToEnd, w.stride[i]));
      }
    places = std::move(next);
    if (places.size() > kMaxPlaces) fail("a window of more than {} places", kMaxPlaces);
  }
  return places;
}

Value window_sums(Value x, const WindowAttributes& w) {
  const std::vector<Value> places = places_in_windows(padded_for(x, w, 0), w);
  Value total = places[0];
  for (size_t i = 1; i < places.size(); ++i) total = total + places[i];
  return total;
}

}  // namespace genesis::models::onnx
