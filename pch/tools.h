// The same for tools/ (see graphs.h).
#include <iostream>

#include "pch/sessions.h"
#include "tools/common/tool.h"
