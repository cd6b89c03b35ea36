// Computes MFU, model FLOPs utilization: the share of a device's peak FLOPs that a training step reaches (PaLM,
// Chowdhery et al. 2022, appendix B). It counts the products of the entry point as it is in the file, so
// recomputation to save memory does not count. Products in 16 bits are compared with the device's peak rate for them,
// all others with its f32 rate.
#pragma once

#include "executor/session.h"

namespace genesis {

class Utilization {
 public:
  // Measures the device's peak rates, which takes a second or two.
  Utilization(Session& session, const std::string& entry, const NamedTensors& inputs);

  double share(double seconds_per_step) const { return least_seconds_ / seconds_per_step; }

 private:
  double least_seconds_ = 0;
};

}  // namespace genesis
