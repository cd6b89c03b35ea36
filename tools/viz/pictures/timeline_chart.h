// A trace as SVG: a track for each thread or stream, a rectangle for each piece of work, coloured by kind of op.
#pragma once

#include <string>

#include "tools/viz/files/inputs.h"

namespace genesis::viz {

// Work too short to be seen is drawn together with its neighbours of the same kind. The first 64 tracks are drawn.
std::string timeline_svg(const Trace& trace);

}  // namespace genesis::viz
