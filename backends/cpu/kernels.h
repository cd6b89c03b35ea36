// The CPU backend's kernel table and its Target, through which passes and the runner choose kernels for the CPU.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

std::span<const KernelImpl> kernels_for(std::string_view op);  // empty if the CPU has no kernel for `op`
Target cpu_target();

}  // namespace genesis::cpu
