// Sharing knows which tensors of an exported program share their memory in torch. Values never change here: an operation that writes over a
// tensor gives it a new value, and so it does to all tensors that see the change, from those that the written one is a view of to
// other views of these. The importer uses it while it translates the calls in order.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/formats/pt2/call.h"

namespace genesis::models::pt2 {

// Both take a name as in "aten.view.default". The results of an operator that makes views have the memory of its first argument, or may
// have it; those of one that makes copies have their own. Neither is known of operators that only compute values.
bool makes_views(std::string_view target);
bool makes_copies(std::string_view target);

class Sharing {
 public:
  // `graph` has "nodes", "outputs" and "tensor_values", and must outlive this object, like `environment`, whose tensors it changes.
  Sharing(const nlohmann::json& graph, Environment& environment) : graph_(graph), environment_(environment) {}

  // Notes that results of a call are views of its first argument, if its operator makes views.
  void note_call(const nlohmann::json& node);
  // The tensor `result` is the tensor `name` under another name.
  void add_alias(const std::string& name, const std::string& result);
  // The call with this number wrote the value of `result` over the tensor `written`. Throws Error if it is not known which other tensors
  // see the change.
  void write(GraphBuilder& g, const std::string& written, const std::string& result, size_t call);
  // Throws Error if the tensor, whose shape the call with this number changes in place, is a view, or has views that a later call reads.
  void check_is_alone(const std::string& written, size_t call);
  // Returns the tensor whose memory a tensor has.
  std::string owner(const std::string& name) const;

 private:
  struct View {
    std::string name, source;
    const nlohmann::json* node;
    size_t output;       // its place among the results of the call
    bool may_be_a_copy;  // torch copies if the layout of the memory allows no view
  };

  std::string resolved(const std::string& name) const;
  const View* view(const std::string& name) const;
  void set(const std::string& name, Value value);
  bool is_read_behind(const std::string& name, size_t call);
  void add_view(const std::string& name, const nlohmann::json& node, size_t output);
  Value replayed(GraphBuilder& g, const View& view, const Environment& environment) const;
  void check_elements_are_apart(GraphBuilder& g, const View& view) const;
  Value source_with(GraphBuilder& g, const View& view) const;
  void renew_other_views(GraphBuilder& g, const std::string& owner, const std::set<std::string>& done,
                         size_t call);

  const nlohmann::json& graph_;
  Environment& environment_;
  std::vector<View> views_;                     // in the order of their creation
  std::map<std::string, size_t> view_of_name_;  // places in views_
  std::map<std::string, std::string> aliases_;
  std::map<std::string, size_t>
      last_read_;  // the number of the last call that reads a tensor; empty until it is asked for
};

}  // namespace genesis::models::pt2
