// The frame of a chart: maps data to pixels, and draws the title, the legend and the axes. Its colors are classes of
// a style sheet that follows the viewer's light or dark mode (prefers-color-scheme).
//
// Classes: "text", "muted", "grid", "box"; "kN" fills and "sN" strokes with color N of palette(); "raw" is a faint
// line, "reference" a red one.
#pragma once

#include <string>
#include <vector>

#include "tools/viz/pictures/ticks.h"

namespace genesis::viz {

struct FrameSize {
  double width = 960, height = 480, left = 70, right = 20, bottom = 45;
};

struct LegendRow {
  size_t color;  // index in the palette
  std::string text;
};

inline constexpr size_t kColors = 10;

class Frame {
 public:
  Frame(double x0, double x1, double y0, double y1, const FrameSize& size = {}, size_t legend_rows = 1);
  double x(double value) const;  // pixels
  double y(double value) const;
  double left() const;
  double right() const;
  double top() const;
  double bottom() const;

  std::string begin(const std::string& title) const;  // plain text
  // Draws colored squares with labels below the title, in as many rows as the frame has room for.
  std::string legend(const std::vector<LegendRow>& rows) const;
  std::string axes(const std::string& x_name, const std::vector<Tick>& x_ticks,
                   const std::vector<Tick>& y_ticks) const;
  // Draws text in a rectangle, cut to fit; nothing if no text fits.
  static std::string words_in(double x, double y, double width, double height, const std::string& text);

 private:
  FrameSize size_;
  double x0_, x1_, y0_, y1_, top_;
};

}  // namespace genesis::viz
