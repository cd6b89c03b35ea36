// The frame of a chart: maps data to pixels, and draws the title and the axes. Used by the charts.
#pragma once

#include <string>
#include <vector>

#include "tools/viz/pictures/ticks.h"

namespace genesis::viz {

class Frame {
 public:
  Frame(double x0, double x1, double y0, double y1);
  double x(double value) const;  // pixels
  double y(double value) const;
  double left() const;
  double right() const;
  double top() const;
  double bottom() const;

  std::string begin(const std::string& title) const;  // plain text
  std::string axes(const std::string& x_name, const std::vector<Tick>& x_ticks,
                   const std::vector<Tick>& y_ticks) const;

 private:
  double x0_, x1_, y0_, y1_;
};

}  // namespace genesis::viz
