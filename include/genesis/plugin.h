// The header that a plugin includes: ops and kernels outside of the library (docs/plugins.md).
#pragma once

#include "executor/plugin.h"
#include "schema/build_id.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
