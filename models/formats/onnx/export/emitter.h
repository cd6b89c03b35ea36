// Collects the nodes of an ONNX graph, for rules that translate ops: it names nodes and values, makes constants, and computes sizes that are
// known only when the model runs from the shapes of its inputs.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "schema/file/other_formats/onnx/model_writer.h"
#include "schema/file/other_formats/onnx/tensor_data.h"
#include "schema/graph/graph.h"

namespace genesis::models::onnx {

// A value of the ONNX graph. An empty name stands for an optional input that is left out.
struct Out {
  std::string name;
  DType dtype = DType::f32;
};

class Emitter {
 public:
  // The sizes of `graph`'s inputs are those from which other sizes are computed; `input_names` are their names in the ONNX graph.
  Emitter(const Graph& graph, std::map<ValueId, std::string> input_names);
  // The same for the graph of a loop's body inside of an ONNX graph: its names differ from those around it, and its constants are made there.
  // `outer` must outlive this object.
  Emitter(const Graph& body, std::map<ValueId, std::string> input_names, Emitter& outer);

  // Nodes added from now on are named after this node of our graph.
  void begin(const std::string& node_name) { scope_ = node_name, first_ = record_.nodes.size(); }
  // Keeps a name from values that ask for it.
  void reserve(const std::string& name) { names_->values.insert(name); }
  // Returns a name that no other value has: `wanted`, or `wanted` with a number.
  std::string unique(const std::string& wanted);
  // Gives a value made since begin() the name `wanted`. Returns false if the value is older; then nothing changes.
  bool rename(const std::string& value, const std::string& wanted);

  // Adds a node. The result has the dtype of the first input, or the given one.
  Out add(const std::string& op, const std::vector<Out>& inputs, const std::string& attributes = "");
  Out add(const std::string& op, const std::vector<Out>& inputs, const std::string& attributes, DType dtype);
  std::vector<Out> add_several(const std::string& op, const std::vector<Out>& inputs,
                               const std::string& attributes, const std::vector<DType>& dtypes);

  Out constant(const std::string& name, const Tensor& value);  // an initializer
  Out integers(const std::vector<int64_t>& values);            // i64[n]
  Out number(double value, DType dtype);                       // a scalar
  Out cast(const Out& x, DType dtype);                         // x itself if it has the dtype

  // --- sizes; these throw Error for a size that does not follow from the shapes of inputs
  Out dim(const Dim& dim);                  // i64[1]
  Out shape(const std::vector<Dim>& dims);  // i64[n]
  Out scalar(const Dim& dim);               // i64[]
  Out counted(const Dim& length);           // i64[length]: 0, 1, ...

  // Returns x with the shape `to`; `from` is the shape it has.
  Out reshape(const Out& x, const Shape& from, const Shape& to);
  Out transpose(const Out& x, const std::vector<int64_t>& axes);
  Out slice(const Out& x, int64_t axis, const Out& start, const Out& end, int64_t step = 1);
  Out unsqueeze(const Out& x, const std::vector<int64_t>& axes);

  OnnxModelRecord& record() { return record_; }

 private:
  Out symbol(const std::string& name);
  Out sum_from(std::string_view text, size_t& at);
  Out product_from(std::string_view text, size_t& at);
  Out factor_from(std::string_view text, size_t& at);

  // The names that are taken. Graphs inside of one another share them.
  struct Names {
    std::set<std::string> values, nodes;
  };

  const Graph& graph_;
  std::map<ValueId, std::string> input_names_;
  Emitter* const outer_ = nullptr;  // null unless the graph is a body
  const std::shared_ptr<Names> names_;
  OnnxModelRecord record_;
  std::string scope_;
  size_t first_ = 0;                  // the first node since begin()
  std::map<std::string, Out> known_;  // constants and sizes by their texts
};

}  // namespace genesis::models::onnx
