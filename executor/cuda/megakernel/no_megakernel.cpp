// Replaces the megakernel in a build without CUDA, where its name can still be switched off.
#include "executor/cuda/joined_steps.h"
#include "executor/cuda/megakernel/cuda_megakernel_plan.h"

namespace genesis {

JoiningImplementation megakernel_implementation() { return {.name = kMegakernelName}; }

}  // namespace genesis
