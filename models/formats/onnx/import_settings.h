// Settings of a command line that fix what an ONNX file leaves open (import.h).
#pragma once

#include <map>
#include <string>

#include "models/formats/onnx/import.h"

namespace genesis::models::onnx {

// Reads settings by name:
//   batch=1                    the value of a named size
//   images.shape=1,3,640,640   the shape of an input; a size that stays open keeps its name
//   sizes=2,-1                 the value of an input of numbers, which becomes a constant
//   /decoder/Loop.steps=500    the most steps of a loop that collects values, by the name of its node
// Throws Error for a name that is none of these, naming those there are.
ImportOptions options_of(const OnnxFile& file, const std::map<std::string, std::string>& settings);

// Returns the name by which such a setting names a loop: that of its node, or of its first output if the node has none.
std::string name_of_loop(const OnnxNode& node);

}  // namespace genesis::models::onnx
