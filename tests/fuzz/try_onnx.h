// Imports an untrusted ONNX model. A damaged file must end in genesis::Error.
#pragma once

#include <string>

namespace genesis::testing {

// Returns true if the file was read and imported. External data is refused, since there is no folder.
bool try_onnx(const std::string& bytes);

}  // namespace genesis::testing
