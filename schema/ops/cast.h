// Conversion between dtypes. Reals to integers truncate toward zero; anything to bool is x != 0.
#pragma once

#include "schema/graph.h"

namespace genesis {

Value cast(Value x, DType dtype);  // x itself when it already has that dtype

}  // namespace genesis
