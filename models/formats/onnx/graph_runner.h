// Translates the nodes of ONNX graphs in order: the main graph, bodies of control flow, and functions of the file, which are
// inlined. Used by import.cpp.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "models/formats/onnx/call.h"

namespace genesis::models::onnx {

class GraphRunner {
 public:
  // Both must outlive the runner. Sets environment.run_body.
  GraphRunner(const OnnxFile& file, Environment& environment);

  // Throws one Error that lists all operators that are not read, with the names of their nodes.
  void check_operators_are_known() const;
  // Returns the items of the graph's outputs. An input without an item is an initializer.
  std::vector<ItemPtr> run_main(const std::vector<ItemPtr>& inputs);

 private:
  // The names that are known while the nodes of one graph or function are translated.
  struct Frame {
    std::map<std::string, ItemPtr> names;
    const Frame* outer = nullptr;  // the graph around a body
    const std::map<std::string, int64_t>* opsets = nullptr;
    const std::map<std::string, OnnxAttribute>* attributes = nullptr;  // the attributes of a function's call
    size_t level = 0;  // the number of bodies that the graph is translated into
  };
  // A body that is being made. What it reads of the graph around it becomes its input, unless it is known, or a state or a constant.
  struct Level {
    GraphBuilder* around;  // the builder of the graph around it
    KnownValues known_around;
    std::map<ItemPtr, ItemPtr> items = {};  // by items of the graph around it
    std::vector<Value> read = {};
  };

  std::vector<ItemPtr> run_graph(const OnnxGraph& graph, const std::vector<ItemPtr>& inputs,
                                 const Frame* outer);
  std::vector<ItemPtr> run_function(const OnnxFunction& function, const OnnxNode& node,
                                    const std::vector<ItemPtr>& inputs);
  void run_node(const OnnxNode& node, Frame& frame);
  std::vector<ItemPtr> run_operator(const OnnxNode& node, const std::vector<ItemPtr>& inputs,
                                    const Frame& frame);
  ItemPtr find(const std::string& name, const Frame& frame);
  Body make_body(const OnnxGraph& graph, const BodyInputs& inputs, const BodyOutputs& outputs);
  ItemPtr inside(const ItemPtr& item, size_t level);
  ItemPtr inside_of(size_t level, Item& item);
  ItemPtr item_of_initializer(const OnnxTensor& tensor);
  const OnnxFunction* find_function(const std::string& op) const;
  int64_t version_of(const std::string& op, const Frame& frame) const;
  void collect_unknown(const std::vector<OnnxNode>& nodes, const std::map<std::string, int64_t>& opsets,
                       std::map<std::string, std::vector<std::string>>& unknown) const;

  std::string body_name() const;

  const OnnxFile* file_;
  Environment* environment_;
  const Frame* frame_ = nullptr;                       // the frame of the node being translated
  std::map<const OnnxTensor*, ItemPtr> initializers_;  // items are those of the main graph
  std::deque<Level> levels_;                           // outermost first
  int depth_ = 0;
  int64_t translated_ = 0;
};

}  // namespace genesis::models::onnx
