// Imports an untrusted program of torch.export, or reads an untrusted picture. A damaged one must end in genesis::Error.
#pragma once

#include <string>

namespace genesis::testing {

// The bytes of a .pt2 file, an archive, which lie in a file of this process meanwhile. Returns true if it was read and imported.
bool try_program(const std::string& bytes);
// The bytes of a JPEG or PNG file. Returns true if it was read.
bool try_picture(const std::string& bytes);

}  // namespace genesis::testing
