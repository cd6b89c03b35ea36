// The CPU backend's table of kernels and its Target. Used by the CPU runner (executor/) and by tests.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

std::span<const KernelImpl> kernels_for(std::string_view op);  // empty when the CPU has none
Target cpu_target();

}  // namespace genesis::cpu
