// Kernels that plugins bring (executor/plugin.h), for their own ops and for those of the library, for which they come first.
#pragma once

#include <string>
#include <vector>

#include "backends/kernel.h"

namespace genesis {

enum class PluginDevice : uint8_t { kCpu, kCuda };

// Adds kernels for a device, which stay for the rest of the process. Any thread may call this before the first session is opened.
void add_plugin_kernels(PluginDevice device, std::span<const OpKernel> kernels);
// Returns the implementations for an op, those of plugins before those of the library; `own` are the library's. The result stays
// valid until kernels are added.
std::span<const KernelImpl> with_plugin_kernels(PluginDevice device, std::string_view op,
                                                std::span<const KernelImpl> own);
std::vector<std::string> plugin_kernel_names(PluginDevice device);  // full names of all implementations

}  // namespace genesis
