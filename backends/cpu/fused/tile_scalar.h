// Tables of tile functions on f64, i64 and bool; null where there is none. Used by tile_functions.cpp.
#pragma once

#include "backends/cpu/fused/tile_functions.h"

namespace genesis::cpu {

Formula find_f64(std::string_view name);
Formula find_i64(std::string_view name);
Formula find_bool(std::string_view name);

}  // namespace genesis::cpu
