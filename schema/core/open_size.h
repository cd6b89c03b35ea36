// An error that comes of a symbolic size: the size must be known, or must be written so that it is seen to equal another one.
#pragma once

#include "schema/core/error.h"

namespace genesis {

class OpenSize : public Error {
 public:
  using Error::Error;
};

}  // namespace genesis
