// What most files of schema/, builder/ and passes/ read anyway, compiled once per library where the folder was configured with
// -Dpch=true, as ./dev demo does: a first build takes a quarter less. Off by default, since ccache passes such files over, and
// so that every file is seen to include what it uses.
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
