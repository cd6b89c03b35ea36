// MFU, model FLOPs utilisation: the share of a device's products that a training step reaches (PaLM, Chowdhery et al. 2022,
// appendix B). The products counted are those of the entry point as the file has it, so that what is computed twice to save
// memory does not count; those in 16 bits are held against the device's rate for them, others against that of f32.
#pragma once

#include "executor/session.h"

namespace genesis::tools {

class Utilisation {
 public:
  // Measures what the device can do, which takes a second or two.
  Utilisation(Session& session, const std::string& entry, const NamedTensors& inputs);

  double share(double seconds_per_step) const { return least_seconds_ / seconds_per_step; }

 private:
  double least_seconds_ = 0;
};

}  // namespace genesis::tools
