// Precompiled header (see graphs.h) of tools/: the headers that most tools include. It must not include CLI11, which would cost
// three seconds in every file, used or not.
#include <iostream>
#include <nlohmann/json.hpp>

#include "pch/sessions.h"
#include "tools/common/tool.h"
