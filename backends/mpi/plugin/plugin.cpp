// The only symbol that the plugin exports.
#include "backends/mpi/plugin/mpi_link.h"
#include "backends/mpi/plugin_interface.h"
#include "schema/version.h"

extern "C" __attribute__((visibility("default"))) const genesis::mpi::Plugin* genesis_mpi_plugin() {
  static const genesis::mpi::Plugin plugin = {genesis::kVersion.data(),
                                              [](const genesis::RankLimits& limits) -> genesis::RankLink* {
                                                return new genesis::mpi::MpiLink(limits);
                                              }};
  return &plugin;
}
