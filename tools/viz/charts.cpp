#include "tools/viz/charts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/tool.h"

namespace genesis::viz {
namespace {

constexpr double kWidth = 960, kHeight = 480, kLeft = 70, kRight = 20, kTop = 40, kBottom = 45;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// A chart's frame: maps data to pixels and draws axes.
class Frame {
 public:
  Frame(double x0, double x1, double y0, double y1)
      : x0_(x0), x1_(x1 > x0 ? x1 : x0 + 1), y0_(y0), y1_(y1 > y0 ? y1 : y0 + 1) {}
  double x(double v) const { return kLeft + (v - x0_) / (x1_ - x0_) * (kWidth - kLeft - kRight); }
  double y(double v) const {
    return kHeight - kBottom - (v - y0_) / (y1_ - y0_) * (kHeight - kTop - kBottom);
  }

  std::string begin(const std::string& title) const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="Helvetica,Arial,sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/><text x="{2}" y="24" font-size="15">{3}</text>
)",
        kWidth, kHeight, kLeft, escaped(title));
  }

  template <class Label>
  std::string axes(const std::string& x_name, Label&& y_label) const {
    std::string out;
    for (int i = 0; i <= 4; ++i) {
      const double vx = x0_ + (x1_ - x0_) * i / 4, vy = y0_ + (y1_ - y0_) * i / 4;
      out += fmt::format(
          R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#ddd"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>
)",
          kLeft, y(vy), kWidth - kRight, y(vy), kLeft - 6, y(vy) + 4, y_label(vy));
      out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:.0f}</text>
)",
                         x(vx), kHeight - kBottom + 18, vx);
    }
    return out + fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>
)",
                             (kLeft + kWidth - kRight) / 2, kHeight - 8, x_name);
  }

 private:
  double x0_, x1_, y0_, y1_;
};

// The moving average that the eye would draw.
std::vector<double> smooth(const std::vector<double>& values) {
  std::vector<double> out;
  const double keep = values.size() > 50 ? 0.95 : 0.8;
  double mean = 0, weight = 0;
  for (double v : values) {
    mean = keep * mean + (1 - keep) * v;
    weight = keep * weight + (1 - keep);
    out.push_back(mean / weight);
  }
  return out;
}

std::string polyline(const Frame& frame, const std::vector<double>& xs, const std::vector<double>& ys,
                     const char* style) {
  std::string points;
  for (size_t i = 0; i < xs.size(); ++i)
    if (std::isfinite(ys[i])) points += fmt::format("{:.1f},{:.1f} ", frame.x(xs[i]), frame.y(ys[i]));
  return fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n", style, points);
}

struct Rectangle {
  int first, last;
  std::string name;
};

}  // namespace

std::string curve_svg(const Curve& curve, const std::string& title, double reference,
                      const std::string& reference_name) {
  if (curve.steps.empty()) fail("there is nothing to draw: no steps were recorded");
  double low = INFINITY, high = -INFINITY;
  for (double v : curve.values)
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  if (std::isfinite(reference)) low = std::min(low, reference), high = std::max(high, reference);
  const Frame frame(curve.steps.front(), curve.steps.back(), low, high);
  std::string svg =
      frame.begin(title) + frame.axes("step", [](double v) { return fmt::format("{:.2f}", v); });
  if (std::isfinite(reference))
    svg += fmt::format(
        R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#c0392b" stroke-dasharray="6 4"/><text x="{}" y="{:.1f}" text-anchor="end" fill="#c0392b">{} {:.3f}</text>
)",
        kLeft, frame.y(reference), kWidth - kRight, frame.y(reference), kWidth - kRight,
        frame.y(reference) - 6, escaped(reference_name), reference);
  svg += polyline(frame, curve.steps, curve.values, "stroke=\"#a9c7e8\" stroke-width=\"1\"");
  svg += polyline(frame, curve.steps, smooth(curve.values), "stroke=\"#1f5fa8\" stroke-width=\"2\"");
  return svg + "</svg>\n";
}

std::string memory_svg(const Plan& plan) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Rectangle>> places;  // (offset, bytes) -> lifetimes
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const auto at = static_cast<int>(i);
    for (const BufferRef& ref : step.inputs)
      if (ref.space == Space::kArena)
        for (auto& [place, list] : places)
          if (place.first <= ref.offset && ref.offset < place.first + std::max<int64_t>(place.second, 1))
            list.back().last = at;
    for (const BufferRef& ref : step.outputs)
      if (ref.space == Space::kArena && ref.bytes > 0)
        places[{ref.offset, ref.bytes}].push_back({at, at, step.authored});
    if (step.scratch_bytes > 0)
      places[{step.scratch_offset, step.scratch_bytes}].push_back({at, at, step.authored + " (scratch)"});
  }
  const Frame frame(0, static_cast<double>(std::max<size_t>(plan.steps.size(), 1)), 0,
                    static_cast<double>(std::max<int64_t>(plan.arena_bytes, 1)));
  std::string svg = frame.begin(fmt::format("{}: arena {} of {} (lower bound)", plan.entry,
                                            tools::human_bytes(static_cast<double>(plan.arena_bytes)),
                                            tools::human_bytes(static_cast<double>(plan.lower_bound_bytes))));
  svg += frame.axes("step", [](double v) { return tools::human_bytes(v); });
  int color = 0;
  for (const auto& [place, list] : places)
    for (const Rectangle& r : list) {
      const double x = frame.x(r.first), top = frame.y(static_cast<double>(place.first + place.second));
      svg += fmt::format(R"svg(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="hsl({},60%,75%)" stroke="#555" stroke-width="0.3"><title>{}: {}</title></rect>
)svg", x, top, std::max(0.5, frame.x(r.last + 1) - x), std::max(0.3, frame.y(static_cast<double>(place.first)) - top), color++ * 47 % 360, escaped(r.name),
                         tools::human_bytes(static_cast<double>(place.second)));
    }
  return svg + "</svg>\n";
}

}  // namespace genesis::viz
