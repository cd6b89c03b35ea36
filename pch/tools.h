// The same for tools/ (see graphs.h). What most of them read; never CLI11, which costs each file three seconds, used or not.
#include <iostream>
#include <nlohmann/json.hpp>

#include "pch/sessions.h"
#include "tools/common/tool.h"
