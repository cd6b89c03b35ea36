// The same for backends/ (see graphs.h). Highway's headers stay out: foreach_target.h must come ahead of them in each file.
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
