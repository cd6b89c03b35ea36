// A plugin: ops and kernels outside of this tree, in a shared library that is opened at run time. A program's author includes
// <genesis/plugin.h>, writes ops as docs/adding-an-op.md shows, and ends the file with
//
//   GENESIS_PLUGIN(kOpDefs<ops::Cube>, kKernels)                // kernels for the CPU
//   GENESIS_PLUGIN(kOpDefs<ops::Cube>, kKernels, kCudaKernels)  // and for NVIDIA GPUs
//
// Ops of plugins are ops like others: they have gradients, are planned, saved and run in mixed precision. A plugin is made for one
// build of the library, since both share C++ types: another one is refused. docs/plugins.md is the guide.
#pragma once

#include <span>
#include <string>

#include "backends/kernel.h"
#include "schema/graph/op.h"

namespace genesis {

struct Plugin {
  std::span<const OpDef* const> ops;
  std::span<const OpKernel> kernels;            // for the CPU
  std::span<const OpKernel> cuda_kernels = {};  // for NVIDIA GPUs
};

// Returns the stream, a cudaStream_t, in whose order a kernel of a GPU works. It starts its work there and does not wait for it:
// runs are recorded as CUDA graphs.
inline void* gpu_stream(const KernelContext& c) { return *static_cast<void* const*>(c.launch); }

// Opens a plugin and adds what it has, for the rest of the process. Opening it again does nothing. Throws Error naming the path if
// it is no plugin, if it was made for another build of the library, or if the name of one of its ops is taken.
void load_plugin(const std::string& path);

// Opens the plugins of a list that is separated by ':'.
void load_plugins(const std::string& paths);

}  // namespace genesis

// Exports the ops and kernels of a plugin. A plugin without one of them gives {}.
#define GENESIS_PLUGIN(plugin_ops, plugin_kernels, ...)                                           \
  extern "C" __attribute__((visibility("default"))) const char* genesis_plugin_build() {          \
    return ::genesis::kBuildId;                                                                   \
  }                                                                                               \
  extern "C" __attribute__((visibility("default"))) const ::genesis::Plugin* genesis_plugin() {   \
    static const ::genesis::Plugin plugin{plugin_ops, plugin_kernels __VA_OPT__(, ) __VA_ARGS__}; \
    return &plugin;                                                                               \
  }
