// Uses its own random arithmetic on top of splitmix64, so that every standard library gives the same instances.
#include "bench/memory/plan_generators.h"

#include <algorithm>
#include <cmath>

#include "schema/core/error.h"

namespace genesis::bench {
namespace {

using passes::PlanBuffer;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  int64_t integer(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  // The density falls as size^-(1 + exponent) between low and high.
  double power_law(double low, double high, double exponent) {
    const double a = std::pow(low, -exponent), b = std::pow(high, -exponent);
    return std::pow(a + (b - a) * uniform(), -1 / exponent);
  }

 private:
  uint64_t state_;
};

struct Box {
  int64_t x0, x1, y0, y1;
};

// Repeatedly draws a few random boxes and cuts the largest of them: the larger `draws`, the more even the sizes. Cuts across time
// and across bytes are about equally frequent.
std::vector<Box> guillotine(int count, int64_t width, int64_t height, int draws, Random& random) {
  std::vector<Box> boxes = {{0, width, 0, height}};
  while (static_cast<int>(boxes.size()) < count) {
    size_t pick = 0;
    double best = -1;
    for (int d = 0; d < draws; ++d) {
      const auto i = static_cast<size_t>(random.integer(0, static_cast<int64_t>(boxes.size()) - 1));
      const double area =
          static_cast<double>(boxes[i].x1 - boxes[i].x0) * static_cast<double>(boxes[i].y1 - boxes[i].y0);
      if (area > best) {
        best = area;
        pick = i;
      }
    }
    Box& box = boxes[pick];
    const bool cut_time = random.uniform() < 0.5;
    int64_t& low = cut_time ? box.x0 : box.y0;
    const int64_t extent = (cut_time ? box.x1 : box.y1) - low;
    if (extent < 2) continue;
    const int64_t at = low + random.integer(1, extent - 1);
    Box other = box;
    (cut_time ? box.x1 : box.y1) = at;
    (cut_time ? other.x0 : other.y0) = at;
    boxes.push_back(other);
  }
  return boxes;
}

std::vector<PlanBuffer> to_buffers(const std::vector<Box>& boxes) {
  std::vector<PlanBuffer> buffers;
  for (const Box& box : boxes) buffers.push_back({box.x0, box.x1, box.y1 - box.y0});
  return buffers;
}

// Returns a perfect packing that no sequence of straight cuts produces: boxes of a guillotine packing are replaced by pinwheels
// (five boxes around a center).
std::vector<Box> pinwheels(int count, int64_t width, int64_t height, Random& random) {
  std::vector<Box> boxes = guillotine(count / 3, width, height, 2, random);
  while (static_cast<int>(boxes.size()) < count) {
    const auto i = static_cast<size_t>(random.integer(0, static_cast<int64_t>(boxes.size()) - 1));
    const Box b = boxes[i];
    if (b.x1 - b.x0 < 3 || b.y1 - b.y0 < 3) {
      std::vector<Box> more = guillotine(2, b.x1 - b.x0, b.y1 - b.y0, 1, random);
      boxes[i] = {b.x0 + more[0].x0, b.x0 + more[0].x1, b.y0 + more[0].y0, b.y0 + more[0].y1};
      boxes.push_back({b.x0 + more[1].x0, b.x0 + more[1].x1, b.y0 + more[1].y0, b.y0 + more[1].y1});
      continue;
    }
    const int64_t xa = random.integer(b.x0 + 1, b.x1 - 2), xb = random.integer(xa + 1, b.x1 - 1);
    const int64_t ya = random.integer(b.y0 + 1, b.y1 - 2), yb = random.integer(ya + 1, b.y1 - 1);
    boxes[i] = {xa, xb, ya, yb};
    boxes.push_back({b.x0, xb, b.y0, ya});
    boxes.push_back({xb, b.x1, b.y0, yb});
    boxes.push_back({xa, b.x1, yb, b.y1});
    boxes.push_back({b.x0, xa, ya, b.y1});
  }
  return boxes;
}

// Turns a perfect packing into an imperfect one: removes some buffers, shrinks some sizes, and shortens some lifetimes.
std::vector<PlanBuffer> with_noise(std::vector<PlanBuffer> buffers, Random& random) {
  std::vector<PlanBuffer> kept;
  for (PlanBuffer b : buffers) {
    const double dice = random.uniform();
    if (dice < 0.05) continue;
    if (dice < 0.15) b.size = std::max<int64_t>(1, b.size - random.integer(0, b.size / 10));
    if (dice > 0.9 && b.upper - b.lower > 2) --b.upper;
    if (dice > 0.95 && b.upper - b.lower > 2) ++b.lower;
    kept.push_back(b);
  }
  return kept;
}

// Returns buffers of random lengths and sizes, each placed where the load is lowest: the load becomes nearly flat, and it is
// unknown if the bound can be reached. About `live` buffers are alive at any time.
std::vector<PlanBuffer> flat_load(int count, int live, double exponent, Random& random) {
  const int64_t horizon = std::max(20, count / 2);
  const double mean_length = static_cast<double>(live * horizon) / count;
  std::vector<PlanBuffer> buffers;
  for (int i = 0; i < count; ++i) {
    const auto length = static_cast<int64_t>(1 + random.power_law(mean_length / 4, mean_length * 4, 1));
    buffers.push_back(
        {0, std::min(length, horizon), 64 * static_cast<int64_t>(random.power_law(16, 4096, exponent))});
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const PlanBuffer& a, const PlanBuffer& b) { return a.size * a.upper > b.size * b.upper; });
  std::vector<int64_t> load(static_cast<size_t>(horizon), 0);
  for (PlanBuffer& b : buffers) {
    int64_t lowest = INT64_MAX;
    for (int attempt = 0; attempt < 12; ++attempt) {
      const int64_t at = random.integer(0, horizon - b.upper);
      const int64_t peak = *std::max_element(load.begin() + at, load.begin() + at + b.upper);
      if (peak < lowest) {
        lowest = peak;
        b.lower = at;
      }
    }
    b.upper += b.lower;
    std::for_each(load.begin() + b.lower, load.begin() + b.upper, [&](int64_t& l) { l += b.size; });
  }
  return buffers;
}

// Returns buffers like those of straight-line code for an accelerator that prefetches: each operation has weights that were
// fetched some steps before, an output that lives until its last reader, and scratch memory; tiles of one layer have equal sizes.
std::vector<PlanBuffer> prefetching_accelerator(int count, Random& random) {
  std::vector<PlanBuffer> buffers;
  int64_t time = 0;
  while (static_cast<int>(buffers.size()) < count) {
    const int64_t activation = 1024 * static_cast<int64_t>(random.power_law(2, 200, 0.8));
    const int64_t weights = 512 * static_cast<int64_t>(random.power_law(2, 300, 0.6));
    const int64_t tiles = random.integer(1, 6);
    for (int64_t tile = 0; tile < tiles && static_cast<int>(buffers.size()) < count; ++tile, ++time) {
      const int64_t ahead = std::min<int64_t>(time, static_cast<int64_t>(random.power_law(1, 40, 0.8)));
      buffers.push_back({time - ahead, time + 1, weights});
      buffers.push_back(
          {time, time + tiles - tile + static_cast<int64_t>(random.power_law(1, 60, 0.9)), activation});
      if (random.uniform() < 0.4) buffers.push_back({time, time + 1, 64 * random.integer(1, 400)});
      if (random.uniform() < 0.1)
        buffers.push_back({time, time + random.integer(20, 120), 256 * random.integer(1, 60)});
    }
  }
  return buffers;
}

}  // namespace

PlanInstance make_train_step(int count, uint64_t seed) {
  Random random(seed);
  PlanInstance instance{"train-step", seed, {}};
  constexpr int64_t kTokensByHidden = 1 << 20;
  const std::vector<int64_t> saved = {1, 1, 3, 2, 1,
                                      1, 4, 4, 4, 1};  // per layer, in units of tokens x hidden
  const int per_layer = static_cast<int>(saved.size()) * 2 + 8;
  const int layers = std::max(1, count / per_layer);
  const int64_t steps_per_layer = 16;
  const int64_t middle = layers * steps_per_layer;
  auto& buffers = instance.buffers;
  for (int layer = 0; layer < layers; ++layer) {
    const int64_t begin = layer * steps_per_layer;
    const int64_t backward = 2 * middle - begin;  // the layer's backward pass ends here
    for (size_t i = 0; i < saved.size(); ++i) {
      const auto t = static_cast<int64_t>(i);
      buffers.push_back({begin + t, backward - t, saved[i] * kTokensByHidden + 64 * random.integer(0, 8)});
      buffers.push_back(
          {backward - t - 2, backward - t + 1 + random.integer(0, 2), saved[i] * kTokensByHidden});
    }
    for (int i = 0; i < 8; ++i) {
      const int64_t at =
          (i < 4 ? begin : backward - steps_per_layer) + random.integer(0, steps_per_layer - 2);
      buffers.push_back({at, at + 1 + random.integer(0, 1), 256 * random.integer(1, 4096)});
    }
  }
  return instance;
}

std::vector<std::string> hard_kinds() {
  return {"guillotine", "guillotine-even", "guillotine-grid", "guillotine-fine", "pinwheel",
          "noisy",      "flat-load",       "flat-load-even",  "accelerator"};
}

PlanInstance make_instance(const std::string& kind, int count, uint64_t seed) {
  Random random(seed * 1000 + static_cast<uint64_t>(count));
  PlanInstance instance{kind, seed, {}};
  auto& buffers = instance.buffers;
  constexpr int64_t kHeight = 1 << 20;
  if (kind == "guillotine") buffers = to_buffers(guillotine(count, 1000, kHeight, 1, random));
  if (kind == "guillotine-even") buffers = to_buffers(guillotine(count, 1000, kHeight, 8, random));
  if (kind == "guillotine-grid") buffers = to_buffers(guillotine(count, 40, 256, 3, random));
  if (kind == "guillotine-fine") buffers = to_buffers(guillotine(count, 1'000'000, kHeight, 3, random));
  if (kind == "pinwheel") buffers = to_buffers(pinwheels(count, 1000, kHeight, random));
  if (kind == "noisy")
    buffers = with_noise(to_buffers(guillotine(count + count / 20, 300, kHeight, 3, random)), random);
  if (kind == "flat-load") buffers = flat_load(count, 16, 0.3, random);
  if (kind == "flat-load-even") buffers = flat_load(count, 10, 0.01, random);
  if (kind == "accelerator") buffers = prefetching_accelerator(count, random);
  GENESIS_ASSERT(!buffers.empty());
  // The order of the buffers must carry no information.
  for (size_t i = buffers.size(); i > 1; --i)
    std::swap(buffers[i - 1], buffers[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i) - 1))]);
  return instance;
}

}  // namespace genesis::bench
