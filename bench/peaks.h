// The machine's limits under the name benches use.
#pragma once

#include "backends/cpu/peaks.h"

namespace genesis::bench {

using cpu::measure_fma_bf16;
using cpu::measure_fma_f32;
using cpu::measure_peaks;
using cpu::Peaks;
using cpu::ReadMeter;

}  // namespace genesis::bench
