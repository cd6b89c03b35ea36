// Exports an entry point of a model as an ONNX model of version 20: the newest operators that all current runtimes read. Ops that ONNX
// has not become formulas.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "schema/file/other_formats/onnx/model_writer.h"
#include "schema/graph/model.h"

namespace genesis::models::onnx {

inline constexpr int64_t kExportedOpset = 20, kExportedIrVersion = 9;

struct ExportOptions {
  std::string entry = "forward";
  int64_t most_inside = kMaxBytesInOnnx;  // bytes of weights in the .onnx file (write_onnx)
};

struct Exported {
  std::vector<std::filesystem::path> files = {};
  int64_t nodes = 0, parameters = 0;
  int64_t batch_norms = 0,
          dropouts = 0;  // layers of a training graph that are written as evaluation has them
};

// Writes the entry point. Inputs, outputs and states have their names; named sizes stay open and have their names. A state that the
// entry point updates, or that is a cache, is an input `NAME` (its value before) and, if it is updated, an output `NAME.updated`. Other
// states are initializers, decoded if they are stored encoded. Batch norms of a training graph use their running statistics, and dropout
// is left out (passes/training/for_evaluation.h). Nodes are named "NODE/Operator" after the nodes of the graph. The model's
// metadata comes along. Throws Error that lists all ops that cannot be written, with their nodes, or names the node that cannot.
Exported export_model(const Model& model, const std::filesystem::path& path,
                      const ExportOptions& options = {});

// Returns the same without writing it, for readers in memory and for tests.
OnnxModelRecord export_record(const Model& model, const std::string& entry);

}  // namespace genesis::models::onnx
