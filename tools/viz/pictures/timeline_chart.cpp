#include "tools/viz/pictures/timeline_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "schema/core/error.h"
#include "tools/viz/pictures/escape.h"
#include "tools/viz/pictures/frame.h"

namespace genesis::viz {
namespace {

constexpr size_t kMaxTracks = 64;
constexpr double kSeen = 0.4;  // pixels; narrower spans are joined with their neighbors

// Kinds of ops, the same as on the page (tools/viz/page/core/theme.js). An op belongs to the first kind that has a
// part of its name.
struct Kind {
  const char* name;
  size_t color;
  std::array<std::string_view, 8> parts;
};

constexpr std::array kKinds = {
    Kind{"communication", 6, {"communication", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"}},
    Kind{"product", 0, {"linear", "matmul", "gemm", "conv", "einsum"}},
    Kind{"attention", 4, {"attention", "rope"}},
    Kind{"norm", 3, {"norm"}},
    Kind{"loss and reduction", 5, {"softmax", "entropy", "loss", "reduce", "sum", "mean", "argmax"}},
    Kind{"lookup", 8, {"embedding", "gather", "scatter", "one_hot"}},
    Kind{"update", 7, {"update", "adam", "sgd", "lion", "muon", "clip"}},
    Kind{"movement", 2, {"reshape", "transpose", "slice", "concat", "expand", "cast", "pad", "copy"}},
    Kind{"elementwise", 1, {""}},
};

size_t kind_of_op(std::string_view op) {
  const auto at = std::ranges::find_if(kKinds, [&](const Kind& kind) {
    return std::ranges::any_of(kind.parts, [&](std::string_view part) {
      return part.data() && op.find(part) != std::string_view::npos;
    });
  });
  return static_cast<size_t>(std::min(at, kKinds.end() - 1) - kKinds.begin());
}

std::string duration_text(double us) {
  if (us >= 1e6) return fmt::format("{:.3g} s", us / 1e6);
  return us >= 1e3 ? fmt::format("{:.3g} ms", us / 1e3) : fmt::format("{:.3g} us", us);
}

struct Piece {
  double start, end;
  size_t kind;
  std::string name;  // for several spans: their number
  size_t count = 1;
};

std::vector<Piece> pieces_of(const Frame& frame, std::vector<Trace::Span> spans) {
  std::ranges::stable_sort(spans, {}, &Trace::Span::start_us);
  std::vector<Piece> pieces;
  const double seen = kSeen / (frame.x(1) - frame.x(0));  // microseconds
  for (const Trace::Span& span : spans) {
    const size_t kind = kind_of_op(span.op);
    const bool joins = !pieces.empty() && pieces.back().kind == kind && span.end_us - span.start_us < seen &&
                       span.start_us - pieces.back().end < seen &&
                       pieces.back().end - pieces.back().start < 20 * seen;
    if (!joins) {
      pieces.push_back({span.start_us, span.end_us, kind, span.name});
      continue;
    }
    pieces.back().end = std::max(pieces.back().end, span.end_us);
    ++pieces.back().count;
  }
  return pieces;
}

std::string piece_svg(const Frame& frame, const Piece& piece, double top, double height) {
  const double x = frame.x(piece.start), width = std::max(kSeen, frame.x(piece.end) - x);
  const std::string name =
      piece.count == 1 ? piece.name : fmt::format("{} and {} more", piece.name, piece.count - 1);
  return fmt::format(
             R"(<rect class="k{}{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}"><title>{}: {}</title></rect>
)",
             kKinds[piece.kind].color, width > 4 ? " box" : "", x, top, width, height, xml_text(name),
             duration_text(piece.end - piece.start)) +
         Frame::words_in(x, top, width, height, piece.name);
}

// Returns the kinds that ran, sorted by their total time on all tracks, longest first.
std::vector<LegendRow> legend_of(const Trace& trace, size_t tracks) {
  std::array<double, kKinds.size()> us{};
  for (size_t i = 0; i < tracks; ++i)
    for (const Trace::Span& span : trace.tracks[i].spans)
      us[kind_of_op(span.op)] += span.end_us - span.start_us;
  std::vector<size_t> order;
  for (size_t kind = 0; kind < kKinds.size(); ++kind)
    if (us[kind] > 0) order.push_back(kind);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return us[a] > us[b]; });
  std::vector<LegendRow> rows;
  for (const size_t kind : order)
    rows.push_back({kKinds[kind].color, fmt::format("{} {}", kKinds[kind].name, duration_text(us[kind]))});
  return rows;
}

std::vector<Tick> time_ticks(double us) {
  const double unit = us >= 2e6 ? 1e6 : us >= 2e3 ? 1e3 : 1;
  std::vector<Tick> ticks = decimal_ticks(0, us / unit, decimal_step(0, us / unit));
  for (Tick& tick : ticks) {
    tick.at *= unit;
    tick.label += unit == 1e6 ? " s" : unit == 1e3 ? " ms" : " us";
  }
  return ticks;
}

}  // namespace

std::string timeline_svg(const Trace& trace) {
  const size_t tracks = std::min(trace.tracks.size(), kMaxTracks);
  const auto count = static_cast<double>(tracks);
  double begin = INFINITY, end = -INFINITY;
  for (size_t i = 0; i < tracks; ++i)
    for (const Trace::Span& span : trace.tracks[i].spans)
      begin = std::min(begin, span.start_us), end = std::max(end, span.end_us);
  const Frame frame(0, end - begin, 0, count,
                    {.height = 130 + std::clamp(34 * count, 80.0, 1600.0), .left = 190}, 2);
  std::vector<Tick> names;
  for (size_t i = 0; i < tracks; ++i)
    names.push_back({count - static_cast<double>(i) - 0.5, trace.tracks[i].name.substr(0, 40)});
  std::string svg =
      frame.begin(fmt::format("{}: {}{}", trace.title, duration_text(end - begin),
                              tracks < trace.tracks.size()
                                  ? fmt::format(", {} of {} tracks", tracks, trace.tracks.size())
                                  : "")) +
      frame.legend(legend_of(trace, tracks)) + frame.axes("time", time_ticks(end - begin), names);
  for (size_t i = 0; i < tracks; ++i) {
    std::vector<Trace::Span> spans = trace.tracks[i].spans;
    for (Trace::Span& span : spans) span.start_us -= begin, span.end_us -= begin;
    const double top = frame.y(count - static_cast<double>(i) - 0.1),
                 height = frame.y(count - static_cast<double>(i) - 0.9) - top;
    for (const Piece& piece : pieces_of(frame, std::move(spans))) svg += piece_svg(frame, piece, top, height);
  }
  return svg + "</svg>\n";
}

}  // namespace genesis::viz
