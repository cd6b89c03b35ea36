// linear of many rows of x and a q8 or q4 weight, by panels (backends/cpu/quantized/quantized_panels.h). A row of matmul.cpp's
// table.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

std::optional<std::string> quantized_panels_decline(const KernelQuery& query);
int64_t quantized_panels_scratch(const KernelQuery& query);
std::shared_ptr<const void> prepare_quantized_panels(const KernelQuery& query);
void run_quantized_panels(const KernelContext& c);

}  // namespace genesis::cpu
