// Precompiled header of schema/, builder/ and passes/: the headers that most of their files include anyway, compiled once per
// library. Meson uses it only with -Dpch=true, which ./dev demo sets; a first build then takes a quarter less time. It is off by
// default because ccache does not cache files that use a precompiled header, and so that the build shows a file that lacks an
// include.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/model.h"
#include "schema/graph/op.h"
