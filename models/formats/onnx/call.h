// One call of an operator in an ONNX graph: its inputs by their places, its attributes by their names. Every attribute that the file
// gives must be read, or the call is refused: an attribute that nobody looks at may change the result.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "builder/graph_builder.h"
#include "models/formats/onnx/item.h"
#include "models/formats/onnx/known_values.h"
#include "schema/file/other_formats/onnx/model_file.h"

namespace genesis::models::onnx {

// Thrown if a size depends on data. `sources` are the names of the inputs that decide it; with their values given
// (ImportOptions::values) the model can be imported.
class NeedsValue : public Error {
 public:
  NeedsValue(std::string message, std::vector<std::string> names)
      : Error(std::move(message)), sources(std::move(names)) {}
  std::vector<std::string> sources;
};

// A graph of the file as an entry point of its own, the body of a loop.
struct Body {
  std::string entry;
  std::vector<ItemPtr> results;  // values of the entry point, whose outputs they are not yet
  std::vector<Value> read;       // values of the graph around it, which its further inputs stand for
};
// Called while the entry point is built, before the file's graph is translated: adds inputs and returns the items that the graph has for
// its own. `inside` returns the item of the body for one of the graph around it.
using BodyInputs = std::function<std::vector<ItemPtr>(GraphBuilder& body,
                                                      const std::function<ItemPtr(const ItemPtr&)>& inside)>;
// Called after that: adds the outputs.
using BodyOutputs = std::function<void(GraphBuilder& body, const std::vector<ItemPtr>& results)>;

// The Environment is what all calls of an import share.
struct Environment {
  GraphBuilder* g = nullptr;
  KnownValues known = {};
  OnnxExternalFiles* external = nullptr;
  std::shared_ptr<const void> owner = {};  // keeps the bytes of tensors valid
  // Runs a graph that is an attribute of the node being translated, with these items as its inputs.
  std::function<std::vector<ItemPtr>(const OnnxGraph&, const std::vector<ItemPtr>&)> run_body = {};
  // Makes an entry point of such a graph. Meanwhile `g` and `known` are those of the body. If a function throws, the model has no such
  // entry point.
  std::function<Body(const OnnxGraph&, const BodyInputs&, const BodyOutputs&)> make_body = {};
  bool in_body = false;                            // calls are translated into the body of a loop
  std::map<std::string, int64_t> most_steps = {};  // ImportOptions::steps
};

// Returns an item as a value. A constant becomes one of the graph; an initializer of reals becomes a state.
Value value_of(Environment& environment, Item& item, bool is_buffer = false);

class Call {
 public:
  Call(Environment& environment, const OnnxNode& node, int64_t version, std::vector<ItemPtr> inputs);

  GraphBuilder& g() const { return *environment_->g; }
  Graph& graph() const { return g().graph(); }
  Environment& environment() const { return *environment_; }
  const OnnxNode& node() const { return *node_; }
  int64_t version() const { return version_; }  // the version of the operators of its domain

  // --- inputs; these throw Error if the input is missing or of another kind
  size_t count() const { return inputs_.size(); }
  bool has(size_t place) const;
  const ItemPtr& item(size_t place) const;
  Value tensor(size_t place) const;
  Value tensor_or(size_t place, Value otherwise) const { return has(place) ? tensor(place) : otherwise; }
  Value buffer(size_t place) const;  // a statistic, which training does not change
  OnnxElement element(size_t place) const { return item(place)->element; }
  std::vector<Value> tensors(size_t first = 0) const;  // all from a place on
  const std::vector<ItemPtr>& sequence(size_t place) const;

  // --- inputs that must be known; these throw NeedsValue
  Tensor known(size_t place) const;
  KnownSizes known_sizes(size_t place) const;
  std::vector<Dim> sizes(size_t place) const { return known_sizes(place).elements; }
  std::vector<int64_t> integers(size_t place) const;
  int64_t integer(size_t place) const;
  int64_t number_of(size_t place, const Dim& size) const;  // `size` is an element of the input
  double number(size_t place) const;
  std::optional<KnownSizes> try_sizes(size_t place) const;
  // Throws NeedsValue: a size of an input depends on data, and values of the model's inputs decide it.
  [[noreturn]] void fail_on_size(const std::string& problem, size_t place) const;

  // --- attributes
  bool has_attribute(const std::string& name) { return find(name) != nullptr; }
  int64_t attribute(const std::string& name, int64_t otherwise);
  double real(const std::string& name, double otherwise);
  std::string text(const std::string& name, const std::string& otherwise);
  std::vector<int64_t> list(const std::string& name, std::vector<int64_t> otherwise = {});
  std::vector<double> reals(const std::string& name);
  std::vector<std::string> texts(const std::string& name);
  const OnnxGraph& body(const std::string& name);
  std::optional<Tensor> tensor_attribute(const std::string& name);
  void accept_any(const std::string& name) { find(name); }
  void check_all_read() const;

  // Returns a list that is an attribute in old versions and an input in newer ones; empty if it is neither.
  std::vector<int64_t> list_or_input(const std::string& name, size_t place);
  bool wants(size_t output) const;  // the node names this output

 private:
  const OnnxAttribute* find(const std::string& name);
  [[noreturn]] void fail_unknown(size_t place) const;

  Environment* environment_;
  const OnnxNode* node_;
  int64_t version_;
  std::vector<ItemPtr> inputs_;
  std::set<std::string> read_;
};

}  // namespace genesis::models::onnx
