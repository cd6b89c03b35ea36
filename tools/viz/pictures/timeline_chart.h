// Draws a trace as SVG: a track per thread or stream, with a rectangle per span, colored by the kind of op.
#pragma once

#include <string>

#include "tools/viz/files/inputs.h"

namespace genesis::viz {

// Spans too short to be seen are joined with neighbors of the same kind. Only the first 64 tracks are drawn.
std::string timeline_svg(const Trace& trace);

}  // namespace genesis::viz
