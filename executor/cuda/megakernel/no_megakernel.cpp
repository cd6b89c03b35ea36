// Stands for the megakernel in a build without CUDA, where its name can be switched off and nothing else is asked of it.
#include "executor/cuda/joined_steps.h"
#include "executor/cuda/megakernel/cuda_megakernel_plan.h"

namespace genesis {

JoiningWay megakernel_way() { return {.name = kMegakernelName}; }

}  // namespace genesis
