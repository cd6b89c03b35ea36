#include "tools/viz/pictures/charts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "tools/common/tool.h"
#include "tools/viz/data/plan_data.h"
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

// Draws one line for each stretch without a gap.
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
      R"(<line class="reference" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke-dasharray="6 4"/><text class="name" x="{}" y="{:.1f}" text-anchor="end">{} {:.3f}</text>
)",
      frame.left(), frame.y(value), frame.right(), frame.y(value), frame.right(), frame.y(value) - 6,
      xml_text(name), value);
}

std::string key(double x, const char* line, const std::string& text) {
  return fmt::format(
      R"(<line class="{}" x1="{}" y1="44" x2="{}" y2="44" stroke-width="2"/><text x="{}" y="48">{}</text>
)",
      line, x, x + 20, x + 26, xml_text(text));
}

// Draws evaluations with a mark at each point, since there may be only one.
std::string evaluations(const Frame& frame, const Curve& curve) {
  std::string svg = lines(frame, curve, R"(class="reference" stroke-width="2")");
  for (size_t i = 0; i < curve.steps.size(); ++i)
    svg += fmt::format("<circle class=\"reference\" fill=\"none\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
                       frame.x(curve.steps[i]), frame.y(curve.values[i]));
  return svg;
}

// Returns the step with the most bytes alive, and their number.
std::pair<size_t, int64_t> fullest_step(const Plan& plan) {
  const std::vector<int64_t> live = live_bytes(plan);
  if (live.empty()) return {0, 0};
  const auto most = std::ranges::max_element(live);
  return {static_cast<size_t>(most - live.begin()), *most};
}

// Shortens a name to its end, which says more than the beginning: "mlp.swiglu", "mlp.swiglu grad".
std::string short_name(const std::string& name) {
  const size_t grad = name.find(".grad.");
  const std::string forward = name.substr(0, grad);
  size_t dot = forward.rfind('.');
  if (dot != std::string::npos && dot > 0) dot = forward.rfind('.', dot - 1);
  return forward.substr(dot == std::string::npos ? 0 : dot + 1) + (grad == std::string::npos ? "" : " grad");
}

// Returns "model.layers.3" for "model.layers.3.mlp.swiglu": the name up to its first number, or else the outermost
// scope.
std::string layer_of(const std::string& name) {
  for (size_t at = 0, end; at < name.size(); at = end + 1) {
    end = std::min(name.find('.', at), name.size());
    if (at > 0 && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at),
                              name.begin() + static_cast<std::ptrdiff_t>(end),
                              [](unsigned char c) { return std::isdigit(c); }))
      return name.substr(0, end);
  }
  return name.substr(0, name.find('.'));
}

constexpr const char* kNoBorder = " stroke=\"none\"";  // for blocks too small to show more than a border

// Stores the exact numbers beside the drawn rectangle, since pixels are rounded.
std::string block_svg(const Frame& frame, const ArenaBlock& block) {
  const double x = frame.x(block.first_step), top = frame.y(static_cast<double>(block.offset + block.bytes));
  const double width = frame.x(block.last_step + 1) - x,
               height = frame.y(static_cast<double>(block.offset)) - top;
  return fmt::format(
      R"svg(<rect class="block" x="{:.2f}" y="{:.3f}" width="{:.2f}" height="{:.3f}"{} data-steps="{} {}" data-offset="{}" data-bytes="{}"><title>{}: {} at {}, steps {} to {}</title></rect>
)svg",
      x, top, width, height, height < 2 || width < 2 ? kNoBorder : "", block.first_step, block.last_step,
      block.offset, block.bytes, xml_text(block.name), human_bytes(block.bytes), human_bytes(block.offset),
      block.first_step, block.last_step);
}

std::string block_words(const Frame& frame, const ArenaBlock& block) {
  const double x = frame.x(block.first_step), top = frame.y(static_cast<double>(block.offset + block.bytes));
  return Frame::words_in(x, top, frame.x(block.last_step + 1) - x,
                         frame.y(static_cast<double>(block.offset)) - top, short_name(block.name));
}

std::string memory_title(const Plan& plan, size_t step, int64_t bytes) {
  if (plan.arena_bytes == 0) return fmt::format("{}: needs no arena", plan.entry);
  return fmt::format("{}: arena of {}; at most {} are alive at once, in step {} of {}", plan.entry,
                     human_bytes(plan.arena_bytes), human_bytes(bytes), step, plan.steps.size());
}

bool is_alive(const ArenaBlock& block, size_t step) {
  return block.first_step <= static_cast<int32_t>(step) && static_cast<int32_t>(step) <= block.last_step;
}

// Returns the bytes alive at the fullest step, by kind.
std::vector<LegendRow> memory_legend(const Plan& plan, size_t fullest) {
  int64_t bytes[kBlockKinds] = {};
  for (const ArenaBlock& block : plan.blocks)
    if (is_alive(block, fullest)) bytes[static_cast<size_t>(kind_of(plan, block))] += block.bytes;
  std::vector<LegendRow> rows;
  for (size_t kind = 0; kind < kBlockKinds; ++kind)
    rows.push_back(
        {kind, fmt::format("{}s, {} at the fullest step", kBlockKindNames[kind], human_bytes(bytes[kind]))});
  return rows;
}

// Returns a text below the picture that lists the largest layers at the fullest step.
std::string memory_by_layer(const Frame& frame, const Plan& plan, size_t fullest) {
  std::map<std::string, int64_t> by_layer;
  for (const ArenaBlock& block : plan.blocks)
    if (is_alive(block, fullest)) by_layer[layer_of(block.name)] += block.bytes;
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [layer, bytes] : by_layer) largest.emplace_back(bytes, layer);
  std::ranges::stable_sort(largest, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = "In the fullest step: ";
  size_t told = 0;
  for (; told < largest.size() && text.size() < 120; ++told)
    text += fmt::format("{}{} {}", told > 0 ? ", " : "", largest[told].second.substr(0, 60),
                        human_bytes(largest[told].first));
  if (told < largest.size()) text += fmt::format(", and {} more", largest.size() - told);
  return fmt::format("<text class=\"muted\" x=\"14\" y=\"{}\">{}</text>\n", frame.bottom() + 60,
                     xml_text(text));
}

std::string fullest_mark(const Frame& frame, size_t step, int64_t bytes) {
  const double x = frame.x(static_cast<double>(step) + 0.5);
  const bool is_right = x > (frame.left() + frame.right()) / 2;
  return fmt::format(
      R"(<line class="reference" x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" stroke-width="1.5"/><text class="name" x="{3:.1f}" y="{4}" text-anchor="{5}">fullest: {6}</text>
)",
      x, frame.top(), frame.bottom(), x + (is_right ? -5 : 5), frame.top() + 14, is_right ? "end" : "start",
      human_bytes(bytes));
}

// Returns the memory of a rank: first the arena, then states by role.
std::vector<std::pair<std::string, int64_t>> parts_of_rank(const Json& rank) {
  std::vector<std::pair<std::string, int64_t>> parts{{"arena", rank["arena_bytes"].get<int64_t>()}};
  for (const Json& row : rank["state_bytes"])
    parts.emplace_back(row[0].get<std::string>(), row[1].get<int64_t>());
  return parts;
}

std::string rank_bar(const Frame& frame, double row,
                     const std::vector<std::pair<std::string, int64_t>>& parts,
                     const std::vector<std::string>& names) {
  const double top = frame.y(row + 0.88), height = frame.y(row + 0.12) - top;
  std::string svg;
  int64_t before = 0;
  for (const auto& [name, bytes] : parts) {
    const double x = frame.x(static_cast<double>(before)),
                 width = frame.x(static_cast<double>(before + bytes)) - x;
    const auto color = static_cast<size_t>(std::ranges::find(names, name) - names.begin()) % kColors;
    svg += fmt::format(
        R"(<rect class="k{} box" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}: {}</title></rect>
)",
        color, x, top, width, height, xml_text(name), human_bytes(bytes));
    svg += Frame::words_in(x, top, width, height, human_bytes(bytes));
    before += bytes;
  }
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                           frame.x(static_cast<double>(before)) + 6, top + height / 2 + 4,
                           human_bytes(before));
}

}  // namespace

std::string losses_svg(const Losses& losses, const std::string& title, double reference,
                       const std::string& reference_name) {
  const Curve& curve = losses.training;
  Curve smoothed = without_gaps(curve);
  if (smoothed.steps.empty()) fail("there is nothing to draw: no step has a finite loss");
  Range steps, values;
  for (double step : curve.steps) steps.add(step);
  for (double value : curve.values) values.add(value);
  for (double value : losses.evaluation.values) values.add(value);
  values.add(reference);
  const double grid = decimal_step(values.low, values.high);
  const double low = std::floor(values.low / grid) * grid, high = std::ceil(values.high / grid) * grid;
  const Frame frame(steps.low, steps.high, low, high);
  std::string svg = frame.begin(title) +
                    frame.axes("step", step_ticks(steps.low, steps.high), decimal_ticks(low, high, grid));
  if (std::isfinite(reference)) svg += reference_line(frame, reference, reference_name);
  svg += lines(frame, curve, R"(class="raw" stroke-width="1")");
  smoothed.values = smooth(smoothed.values);
  svg += lines(frame, smoothed, R"(class="line" stroke-width="2")");
  svg += key(frame.left(), "raw", "each step") + key(frame.left() + 100, "line", "smoothed");
  if (!losses.evaluation.steps.empty())
    svg += evaluations(frame, losses.evaluation) + key(frame.left() + 200, "reference", "evaluation");
  return svg + "</svg>\n";
}

std::string memory_svg(const Plan& plan) {
  const auto steps = static_cast<double>(plan.steps.size()), bytes = static_cast<double>(plan.arena_bytes);
  const auto [fullest, most] = fullest_step(plan);
  const Frame frame(0, steps, 0, bytes, {.height = 560, .bottom = 75}, 2);
  std::string svg = frame.begin(memory_title(plan, fullest, most)) +
                    frame.legend(memory_legend(plan, fullest)) +
                    frame.axes("step", step_ticks(0, steps), byte_ticks(bytes));
  // One group per kind, so that the class of the color is written once.
  for (size_t kind = 0; kind < kBlockKinds; ++kind) {
    svg += fmt::format("<g class=\"k{} box\">\n", kind);
    for (const ArenaBlock& block : plan.blocks)
      if (static_cast<size_t>(kind_of(plan, block)) == kind) svg += block_svg(frame, block);
    svg += "</g>\n";
  }
  for (const ArenaBlock& block : plan.blocks) svg += block_words(frame, block);
  if (plan.arena_bytes > 0) svg += fullest_mark(frame, fullest, most) + memory_by_layer(frame, plan, fullest);
  return svg + "</svg>\n";
}

std::string ranks_svg(const std::string& entry, const Json& mesh) {
  const Json& ranks = mesh["ranks"];
  std::vector<std::string> names;
  int64_t most = 0;
  for (const Json& rank : ranks) {
    int64_t total = 0;
    for (const auto& [name, bytes] : parts_of_rank(rank)) {
      total += bytes;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    most = std::max(most, total);
  }
  const auto count = static_cast<double>(ranks.size());
  const Frame frame(0, static_cast<double>(most), 0, count, {.height = 115 + 34 * count, .right = 110}, 1);
  std::vector<LegendRow> legend;
  for (size_t i = 0; i < names.size(); ++i) legend.push_back({i % kColors, names[i]});
  std::string title = fmt::format(
      "{} on {} ranks ({}{})", entry, mesh["rank_count"].get<int64_t>(), mesh["axes"].get<std::string>(),
      mesh["zero"].get<int>() > 0 ? ", zero " + std::to_string(mesh["zero"].get<int>()) : "");
  for (const Json& along : mesh["traffic"])
    title += fmt::format("; each sends {} along '{}' in a run", human_bytes(along["bytes"].get<int64_t>()),
                         along["axis"].get<std::string>());
  std::vector<Tick> rows;
  for (size_t i = 0; i < ranks.size(); ++i)
    rows.push_back({count - static_cast<double>(i) - 0.5, fmt::format("rank {}", i)});
  std::string svg = frame.begin(title) + frame.legend(legend) +
                    frame.axes("bytes", byte_ticks(static_cast<double>(most)), rows);
  for (size_t i = 0; i < ranks.size(); ++i)
    svg += rank_bar(frame, count - 1 - static_cast<double>(i), parts_of_rank(ranks[i]), names);
  return svg + "</svg>\n";
}

}  // namespace genesis::viz
