// Precompiled header (see graphs.h) of backends/. It leaves out Highway's headers: each file must include foreach_target.h before
// them.
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/kernel.h"
