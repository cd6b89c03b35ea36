#include "tools/viz/pictures/charts.h"

#include <algorithm>
#include <cmath>

#include "tools/common/tool.h"
#include "tools/viz/pictures/escape.h"
#include "tools/viz/pictures/frame.h"
#include "tools/viz/pictures/smooth.h"

namespace genesis::viz {
namespace {

struct Range {
  double low = INFINITY, high = -INFINITY;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::vector<Tick> step_ticks(double first, double last) {
  return decimal_ticks(first, last, decimal_step(first, last, true));
}

std::string polyline(const std::string& points, const char* style) {
  return fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n", style, points);
}

// One line for every stretch without a gap.
std::string lines(const Frame& frame, const Curve& curve, const char* style) {
  std::string out, points;
  const auto end = [&] {
    if (!points.empty()) out += polyline(points, style);
    points.clear();
  };
  for (size_t i = 0; i < curve.steps.size(); ++i)
    if (std::isfinite(curve.values[i]))
      points += fmt::format("{:.1f},{:.1f} ", frame.x(curve.steps[i]), frame.y(curve.values[i]));
    else
      end();
  end();
  return out;
}

Curve without_gaps(const Curve& curve) {
  Curve out;
  for (size_t i = 0; i < curve.steps.size(); ++i) {
    if (!std::isfinite(curve.values[i])) continue;
    out.steps.push_back(curve.steps[i]);
    out.values.push_back(curve.values[i]);
  }
  return out;
}

std::string reference_line(const Frame& frame, double value, const std::string& name) {
  return fmt::format(
      R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#c0392b" stroke-dasharray="6 4"/><text x="{}" y="{:.1f}" text-anchor="end" fill="#c0392b">{} {:.3f}</text>
)",
      frame.left(), frame.y(value), frame.right(), frame.y(value), frame.right(), frame.y(value) - 6,
      xml_text(name), value);
}

std::string key(double x, const char* color, const std::string& text) {
  return fmt::format(
      R"(<line x1="{}" y1="20" x2="{}" y2="20" stroke="{}" stroke-width="2"/><text x="{}" y="24">{}</text>
)",
      x, x + 20, color, x + 26, xml_text(text));
}

// The step with the most bytes alive, and how many they are.
std::pair<size_t, int64_t> fullest_step(const Plan& plan) {
  std::vector<int64_t> change(plan.steps.size() + 1, 0);
  for (const ArenaBlock& block : plan.blocks) {
    change[static_cast<size_t>(block.first_step)] += block.bytes;
    change[static_cast<size_t>(block.last_step) + 1] -= block.bytes;
  }
  std::pair<size_t, int64_t> most{0, 0};
  int64_t live = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if ((live += change[i]) > most.second) most = {i, live};
  return most;
}

// The numbers stand beside the picture of them: pixels are rounded.
std::string block_svg(const Frame& frame, const ArenaBlock& block, size_t number) {
  const double x = frame.x(block.first_step), top = frame.y(static_cast<double>(block.offset + block.bytes));
  return fmt::format(
      R"svg(<rect class="block" x="{:.2f}" y="{:.3f}" width="{:.2f}" height="{:.3f}" fill="hsl({},60%,75%)" stroke="#555" stroke-width="0.2" data-steps="{} {}" data-offset="{}" data-bytes="{}"><title>{}: {} at {}, steps {} to {}</title></rect>
)svg",
      x, top, frame.x(block.last_step + 1) - x, frame.y(static_cast<double>(block.offset)) - top,
      number * 47 % 360, block.first_step, block.last_step, block.offset, block.bytes, xml_text(block.name),
      tools::human_bytes(static_cast<double>(block.bytes)),
      tools::human_bytes(static_cast<double>(block.offset)), block.first_step, block.last_step);
}

std::string memory_title(const Plan& plan, size_t step, int64_t bytes) {
  if (plan.arena_bytes == 0) return fmt::format("{}: needs no arena", plan.entry);
  return fmt::format("{}: arena of {}; at most {} are alive at once, in step {} of {}", plan.entry,
                     tools::human_bytes(static_cast<double>(plan.arena_bytes)),
                     tools::human_bytes(static_cast<double>(bytes)), step, plan.steps.size());
}

}  // namespace

std::string curve_svg(const Curve& curve, const std::string& title, double reference,
                      const std::string& reference_name) {
  Curve smoothed = without_gaps(curve);
  if (smoothed.steps.empty()) fail("there is nothing to draw: no step has a finite loss");
  Range steps, values;
  for (double step : curve.steps) steps.add(step);
  for (double value : curve.values) values.add(value);
  values.add(reference);
  const double grid = decimal_step(values.low, values.high);
  const double low = std::floor(values.low / grid) * grid, high = std::ceil(values.high / grid) * grid;
  const Frame frame(steps.low, steps.high, low, high);
  std::string svg = frame.begin(title) +
                    frame.axes("step", step_ticks(steps.low, steps.high), decimal_ticks(low, high, grid));
  if (std::isfinite(reference)) svg += reference_line(frame, reference, reference_name);
  svg += lines(frame, curve, "stroke=\"#a9c7e8\" stroke-width=\"1\"");
  smoothed.values = smooth(smoothed.values);
  svg += lines(frame, smoothed, "stroke=\"#1f5fa8\" stroke-width=\"2\"");
  svg += key(frame.right() - 210, "#a9c7e8", "each step") + key(frame.right() - 100, "#1f5fa8", "smoothed");
  return svg + "</svg>\n";
}

std::string memory_svg(const Plan& plan) {
  const auto steps = static_cast<double>(plan.steps.size()), bytes = static_cast<double>(plan.arena_bytes);
  const auto [fullest, most] = fullest_step(plan);
  const Frame frame(0, steps, 0, bytes);
  std::string svg = frame.begin(memory_title(plan, fullest, most)) +
                    frame.axes("step", step_ticks(0, steps), byte_ticks(bytes));
  for (size_t i = 0; i < plan.blocks.size(); ++i) svg += block_svg(frame, plan.blocks[i], i);
  return svg + "</svg>\n";
}

}  // namespace genesis::viz
