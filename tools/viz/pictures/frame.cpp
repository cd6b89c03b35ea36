#include "tools/viz/pictures/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/viz/pictures/escape.h"

namespace genesis::viz {
namespace {

constexpr double kWidth = 960, kHeight = 480, kLeft = 70, kRight = 20, kTop = 40, kBottom = 45;

// A range of no width still needs a picture.
double end_of(double begin, double end) {
  return end > begin ? end : begin + std::max(1.0, std::abs(begin) * 1e-3);
}

}  // namespace

Frame::Frame(double x0, double x1, double y0, double y1)
    : x0_(x0), x1_(end_of(x0, x1)), y0_(y0), y1_(end_of(y0, y1)) {}

double Frame::x(double value) const { return left() + (value - x0_) / (x1_ - x0_) * (right() - left()); }
double Frame::y(double value) const { return bottom() - (value - y0_) / (y1_ - y0_) * (bottom() - top()); }
double Frame::left() const { return kLeft; }
double Frame::right() const { return kWidth - kRight; }
double Frame::top() const { return kTop; }
double Frame::bottom() const { return kHeight - kBottom; }

std::string Frame::begin(const std::string& title) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="Helvetica,Arial,sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/><text x="{2}" y="24" font-size="15">{3}</text>
)",
      kWidth, kHeight, kLeft, xml_text(title));
}

std::string Frame::axes(const std::string& x_name, const std::vector<Tick>& x_ticks,
                        const std::vector<Tick>& y_ticks) const {
  std::string out;
  for (const Tick& tick : y_ticks)
    out += fmt::format(
        R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#ddd"/><text class="y" x="{}" y="{:.1f}" text-anchor="end">{}</text>
)",
        left(), y(tick.at), right(), y(tick.at), left() - 6, y(tick.at) + 4, xml_text(tick.label));
  for (const Tick& tick : x_ticks)
    out += fmt::format(R"(<text class="x" x="{:.1f}" y="{}" text-anchor="middle">{}</text>
)",
                       x(tick.at), bottom() + 18, xml_text(tick.label));
  return out + fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>
)",
                           (left() + right()) / 2, kHeight - 8, xml_text(x_name));
}

}  // namespace genesis::viz
