#include "tools/viz/pictures/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/viz/pictures/escape.h"

namespace genesis::viz {
namespace {

constexpr double kTitle = 40, kLegendRow = 20, kLetter = 6.6;  // pixels

// Fill colors on which text is readable, for light and dark mode.
constexpr const char* kLight[kColors] = {"#a9cdf5", "#f7c793", "#cdd4dd", "#a6dfb6", "#d3bdf2",
                                         "#f5b3b8", "#9fe0e6", "#f2a9d3", "#d9e29a", "#e3d3b8"};
constexpr const char* kDark[kColors] = {"#2b5c94", "#8a5714", "#4a5361", "#256b3a", "#5f4391",
                                        "#8c3540", "#1d6a75", "#8a3570", "#5f6b1c", "#6b5836"};

// Gives a range of no width a width, since it still needs a picture.
double end_of(double begin, double end) {
  return end > begin ? end : begin + std::max(1.0, std::abs(begin) * 1e-3);
}

std::string palette(const char* const (&colors)[kColors]) {
  std::string rules;
  for (size_t i = 0; i < kColors; ++i) rules += fmt::format(".k{0}{{fill:{1}}}", i, colors[i]);
  return rules;
}

constexpr const char* kLightRules = R"(svg{color-scheme:light dark}
.page{fill:#fff}text{fill:#16202e}.muted{fill:#55606f}.grid{stroke:#dde2e9}.box{stroke:#5b6675;stroke-width:.4}
.raw{stroke:#a9c7e8}.line{stroke:#1f5fa8}.reference{stroke:#c0392b}
.name{fill:#c0392b;stroke:#fff;stroke-width:4px;paint-order:stroke}
)";
constexpr const char* kDarkRules =
    R"(.page{fill:#12161d}text{fill:#e8edf4}.muted{fill:#a5b1c2}.grid{stroke:#2c3542}.box{stroke:#c6cbd6}
.raw{stroke:#3b5b80}.line{stroke:#6cb0ff}.reference{stroke:#ff8a80}.name{fill:#ff8a80;stroke:#12161d}
)";

std::string style() {
  return fmt::format("<style>{}{}\n@media (prefers-color-scheme:dark){{{}{}}}</style>\n", kLightRules,
                     palette(kLight), kDarkRules, palette(kDark));
}

}  // namespace

Frame::Frame(double x0, double x1, double y0, double y1, const FrameSize& size, size_t legend_rows)
    : size_(size),
      x0_(x0),
      x1_(end_of(x0, x1)),
      y0_(y0),
      y1_(end_of(y0, y1)),
      top_(kTitle + kLegendRow * static_cast<double>(legend_rows)) {}

double Frame::x(double value) const { return left() + (value - x0_) / (x1_ - x0_) * (right() - left()); }
double Frame::y(double value) const { return bottom() - (value - y0_) / (y1_ - y0_) * (bottom() - top()); }
double Frame::left() const { return size_.left; }
double Frame::right() const { return size_.width - size_.right; }
double Frame::top() const { return top_; }
double Frame::bottom() const { return size_.height - size_.bottom; }

std::string Frame::begin(const std::string& title) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="system-ui,'DejaVu Sans','Liberation Sans',Arial,sans-serif" font-size="12" role="img">
<title>{3}</title>{4}<rect class="page" width="100%" height="100%"/><text x="{2}" y="24" font-size="15">{3}</text>
)",
      size_.width, size_.height, 14, xml_text(title), style());
}

std::string Frame::legend(const std::vector<LegendRow>& rows) const {
  std::string out;
  double x = left(), y = kTitle;
  for (const LegendRow& row : rows) {
    const double width = 26 + kLetter * static_cast<double>(row.text.size());
    if (x > left() && x + width > right()) x = left(), y += kLegendRow;
    if (y + kLegendRow > top_) break;
    out += fmt::format(
        R"(<rect class="k{} box" x="{:.1f}" y="{}" width="11" height="11"/><text x="{:.1f}" y="{}">{}</text>
)",
        row.color, x, y - 1, x + 16, y + 9, xml_text(row.text));
    x += width + 8;
  }
  return out;
}

std::string Frame::axes(const std::string& x_name, const std::vector<Tick>& x_ticks,
                        const std::vector<Tick>& y_ticks) const {
  std::string out;
  for (const Tick& tick : y_ticks)
    out += fmt::format(
        R"(<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/><text class="y" x="{}" y="{:.1f}" text-anchor="end">{}</text>
)",
        left(), y(tick.at), right(), y(tick.at), left() - 6, y(tick.at) + 4, xml_text(tick.label));
  for (const Tick& tick : x_ticks)
    out += fmt::format(
        R"(<line class="grid" x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}"/><text class="x" x="{0:.1f}" y="{3}" text-anchor="middle">{4}</text>
)",
        x(tick.at), top(), bottom() + 4, bottom() + 18, xml_text(tick.label));
  return out + fmt::format(R"(<text class="muted" x="{}" y="{}" text-anchor="middle">{}</text>
)",
                           (left() + right()) / 2, bottom() + 37, xml_text(x_name));
}

std::string Frame::words_in(double x, double y, double width, double height, const std::string& text) {
  const auto room = static_cast<size_t>(std::max(0.0, (width - 6) / kLetter));
  if (height < 11 || room < 4 || text.empty()) return "";
  return fmt::format(
      R"(<text x="{:.1f}" y="{:.1f}" font-size="11">{}</text>
)",
      x + 3, y + height / 2 + 4,
      xml_text(text.size() <= room ? text : text.substr(0, room - 1)) + (text.size() <= room ? "" : "…"));
}

}  // namespace genesis::viz
